//! Finds the process at the other end of a TCP connection on this machine.
//!
//! A TCP connection carries no credentials, as a unix socket does. The kernel lists each socket
//! with its user and its inode in `/proc/net/tcp`, and each open socket of a process in
//! `/proc/<pid>/fd`.

use std::fs;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use rustix::process::geteuid;

use crate::job::started_by_a_tool;

/// The process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this user that no tool of an agent started.
    User,
    /// A process of another user.
    OtherUser,
    /// A process that a tool of an agent started.
    Tool {
        /// The process id.
        pid: u32,
    },
}

/// A socket of a process, as the kernel lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    local: SocketAddrV4,
    remote: SocketAddrV4,
    uid: u32,
    inode: u64,
}

/// Finds the process that connected from the address `peer` to the address `own`. It blocks.
///
/// On other systems than Linux the result is always [`Peer::User`].
///
/// Several processes can hold one socket. If a tool of an agent started one of them, the result is
/// that process.
///
/// # Errors
/// If the kernel lists no such socket, or if the process that has the socket cannot be found.
pub fn peer_of(peer: SocketAddr, own: SocketAddr) -> io::Result<Peer> {
    if !cfg!(target_os = "linux") {
        // Only Linux has the lists. A host has a control socket only there too.
        return Ok(Peer::User);
    }
    let (SocketAddr::V4(peer), SocketAddr::V4(own)) = (peer, own) else {
        return Err(io::Error::other("it does not call from an IPv4 address"));
    };
    let table = fs::read_to_string("/proc/net/tcp")?;
    let socket = table.lines().filter_map(listed).find(|it| it.local == peer && it.remote == own);
    let socket = socket
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "its connection is closed"))?;
    if socket.uid != geteuid().as_raw() {
        return Ok(Peer::OtherUser);
    }
    let mut found = Err(io::Error::new(io::ErrorKind::NotFound, "its process hides its files"));
    for pid in holders(socket.inode)? {
        if started_by_a_tool(pid)? {
            return Ok(Peer::Tool { pid });
        }
        found = Ok(Peer::User);
    }
    found
}

/// Reads a line of the kernel's list of sockets. Returns `None` for the heading.
fn listed(line: &str) -> Option<Listed> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
    // Between them are the state, the queues, the timer and the number of retransmissions.
    let uid = fields.nth(4)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some(Listed { local, remote, uid, inode })
}

/// Reads an address such as `0100007F:1F90`. The kernel writes the bytes of the number in memory.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (ip, port) = text.split_once(':')?;
    let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
    Some(SocketAddrV4::new(ip.into(), u16::from_str_radix(port, 16).ok()?))
}

/// Returns the processes that have the socket open. Processes whose open files this user may not
/// read are left out.
fn holders(inode: u64) -> io::Result<Vec<u32>> {
    let socket = format!("socket:[{inode}]");
    let is_it = |fd: &fs::DirEntry| {
        fs::read_link(fd.path()).is_ok_and(|target| target.as_os_str() == socket.as_str())
    };
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(fds) = fs::read_dir(entry.path().join("fd")) else { continue };
        if fds.flatten().any(|fd| is_it(&fd)) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::job::TAG_VARIABLE;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = "   1: 0100007F:A3C4 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 48213 1 0000000000000000 20 4 30 10 -1";
        let at = |port| SocketAddrV4::new([127, 0, 0, 1].into(), port);
        let expected = Listed { local: at(0xA3C4), remote: at(0x1F90), uid: 1000, inode: 48213 };
        assert_eq!(listed(line), Some(expected));
        assert_eq!(listed("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }

    #[test]
    fn the_process_at_the_other_end_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let caller = TcpStream::connect(own).unwrap();
        let peer = caller.local_addr().unwrap();
        assert_eq!(peer_of(peer, own).unwrap(), Peer::User);
        let other = SocketAddr::new(peer.ip(), 1);
        assert_eq!(peer_of(other, own).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_process_that_a_tool_of_an_agent_started_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        // The shell opens the connection, and keeps it open while it reads from it.
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; read -r _ <&3", own.port());
        let mut tool = Command::new("bash")
            .args(["-c", &script])
            .env(TAG_VARIABLE, "a-job")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let (connection, peer) = listener.accept().unwrap();
        assert_eq!(peer_of(peer, own).unwrap(), Peer::Tool { pid: tool.id() });
        drop(connection);
        tool.wait().unwrap();
    }
}
