//! Finds the process at the other end of a TCP connection on this machine.
//!
//! A TCP connection carries no credentials, as a unix socket does. The kernel lists each socket
//! with its user and its inode in `/proc/net/tcp` and `/proc/net/tcp6`, and each open socket of a
//! process in `/proc/<pid>/fd`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use rustix::process::geteuid;

use crate::identity::Entry;
use crate::job::started_by_a_tool;

/// The process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this user that no tool of an agent started.
    User {
        /// The process id. On other systems than Linux it is 0.
        pid: u32,
    },
    /// A process of another user.
    OtherUser,
    /// A process that a tool of an agent started.
    Tool {
        /// The process id.
        pid: u32,
    },
    /// Another machine, or a container with an address of its own.
    OtherMachine,
}

/// A socket of a process, as the kernel lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    uid: u32,
    inode: u64,
}

/// A connection from the first address to the second.
pub type Call = (SocketAddr, SocketAddr);

/// How often a process is looked for.
const LOOKS_MOST: usize = 3;

/// Finds the process of each call. It blocks. It takes hardly longer for many calls than for one.
///
/// On other systems than Linux the result is always [`Peer::User`] or [`Peer::OtherMachine`].
///
/// Several processes can hold one socket. If a tool of an agent started one of them, the result is
/// that process.
///
/// # Errors
/// If the kernel lists no such socket, or if the process that has the socket cannot be found.
pub fn peers_of(calls: &[Call]) -> Vec<io::Result<Peer>> {
    let mut all = look(calls);
    for _ in 1..LOOKS_MOST {
        // Unrelated processes that began or ended during the look can have been in its way.
        let unknown: Vec<usize> =
            (0..all.len()).filter(|at| all.get(*at).is_some_and(Result::is_err)).collect();
        let again: Vec<Call> = unknown.iter().filter_map(|at| calls.get(*at).copied()).collect();
        if again.is_empty() {
            break;
        }
        for (at, found) in unknown.into_iter().zip(look(&again)) {
            if let Some(peer) = all.get_mut(at) {
                *peer = found;
            }
        }
    }
    all
}

fn look(calls: &[Call]) -> Vec<io::Result<Peer>> {
    let places: Vec<Place> = match sockets_of(calls) {
        Ok(places) => places,
        Err(error) => {
            let again = || io::Error::new(error.kind(), error.to_string());
            return calls.iter().map(|_| Err(again())).collect();
        }
    };
    let inodes = places.iter().filter_map(|place| match place {
        Place::Socket(socket) if socket.uid == geteuid().as_raw() => Some(socket.inode),
        Place::Socket(_) | Place::Closed | Place::Known(_) => None,
    });
    let holders = holders(&inodes.collect());
    let mut tools = HashMap::new();
    let judged = places.into_iter().map(|place| match place {
        Place::Known(peer) => Ok(peer),
        Place::Closed => Err(io::Error::new(io::ErrorKind::NotFound, "its connection is closed")),
        Place::Socket(socket) if socket.uid != geteuid().as_raw() => Ok(Peer::OtherUser),
        Place::Socket(socket) => {
            judged(holders.get(&socket.inode).map_or(&[], Vec::as_slice), &mut tools)
        }
    });
    judged.collect()
}

/// What is known of a call before its process is looked for.
enum Place {
    Known(Peer),
    Socket(Listed),
    Closed,
}

fn sockets_of(calls: &[Call]) -> io::Result<Vec<Place>> {
    let mut all: Option<HashMap<Call, Listed>> = None;
    let mut places = Vec::new();
    for (peer, own) in calls {
        if !is_of_this_machine(*peer, *own) {
            places.push(Place::Known(Peer::OtherMachine));
            continue;
        }
        if !cfg!(target_os = "linux") {
            // Only Linux has the lists. A host has a control socket only there too.
            places.push(Place::Known(Peer::User { pid: 0 }));
            continue;
        }
        if all.is_none() {
            all = Some(sockets()?);
        }
        let found = all.as_ref().and_then(|all| all.get(&(canonical(*peer), canonical(*own))));
        places.push(found.map_or(Place::Closed, |socket| Place::Socket(*socket)));
    }
    Ok(places)
}

/// Judges the processes that have one socket. `tools` has the judgements so far.
fn judged(holders: &[u32], tools: &mut HashMap<u32, Result<bool, String>>) -> io::Result<Peer> {
    let mut found = Err(io::Error::new(io::ErrorKind::NotFound, "its process hides its files"));
    for pid in holders {
        let tool = tools
            .entry(*pid)
            .or_insert_with(|| started_by_a_tool(*pid).map_err(|error| error.to_string()));
        match tool {
            Ok(true) => return Ok(Peer::Tool { pid: *pid }),
            Ok(false) => found = Ok(Peer::User { pid: *pid }),
            // A child that was just forked has the socket too, until it runs its program.
            Err(_) if Entry::read(*pid).is_none() => {}
            Err(error) => return Err(io::Error::other(error.clone())),
        }
    }
    found
}

/// Whether an address belongs to this machine. A process can only bind an address of its machine.
fn is_of_this_machine(peer: SocketAddr, own: SocketAddr) -> bool {
    let ip = peer.ip().to_canonical();
    if ip.is_loopback() || ip == own.ip().to_canonical() {
        return true;
    }
    // The address keeps its scope, which a link-local address needs.
    let mut any_port = peer;
    any_port.set_port(0);
    match UdpSocket::bind(any_port) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::AddrNotAvailable,
    }
}

/// Returns the address without scope, and an IPv4 address in the form of IPv4. A socket that
/// listens for both versions gets IPv4 addresses in the form of IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns all TCP connections of this machine.
fn sockets() -> io::Result<HashMap<Call, Listed>> {
    let mut tables = fs::read_to_string("/proc/net/tcp")?;
    match fs::read_to_string("/proc/net/tcp6") {
        Ok(table) => tables += &table,
        // The system has no IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(tables.lines().filter_map(listed).collect())
}

/// Reads a line of the kernel's list of sockets. Returns `None` for the heading.
fn listed(line: &str) -> Option<(Call, Listed)> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
    // Between them are the state, the queues, the timer and the number of retransmissions.
    let uid = fields.nth(4)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some(((local, remote), Listed { uid, inode }))
}

/// Reads an address such as `0100007F:1F90`. The kernel writes the bytes of each 32-bit number as
/// they are in memory: one number for IPv4, four for IPv6.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let number = |at: usize| {
        let digits = ip.get(at * 8..at * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(number(0)?)),
        32 => {
            let bytes = [number(0)?, number(1)?, number(2)?, number(3)?].concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?)))
}

/// Returns the processes that have each of these sockets open. Processes whose open files this user
/// may not read are left out.
fn holders(inodes: &HashSet<u64>) -> HashMap<u64, Vec<u32>> {
    let mut found: HashMap<u64, Vec<u32>> = HashMap::new();
    if inodes.is_empty() {
        return found;
    }
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(fds) = fs::read_dir(entry.path().join("fd")) else { continue };
        for inode in fds.flatten().filter_map(|fd| socket_at(&fd.path())) {
            if inodes.contains(&inode) {
                let holders = found.entry(inode).or_default();
                if !holders.contains(&pid) {
                    holders.push(pid);
                }
            }
        }
    }
    found
}

/// Returns the inode of an open file if it is a socket.
fn socket_at(fd: &Path) -> Option<u64> {
    let target = fs::read_link(fd).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::job::TAG_VARIABLE;

    fn peer_of(peer: SocketAddr, own: SocketAddr) -> io::Result<Peer> {
        peers_of(&[(peer, own)]).pop().unwrap()
    }

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = "   1: 0100007F:A3C4 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 48213 1 0000000000000000 20 4 30 10 -1";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let expected = ((at(0xA3C4), at(0x1F90)), Listed { uid: 1000, inode: 48213 });
        assert_eq!(listed(line), Some(expected));
        assert_eq!(listed("  sl  local_address rem_address   st tx_queue rx_queue"), None);
        let six = address("00000000000000000000000001000000:1F90");
        assert_eq!(six, Some("[::1]:8080".parse().unwrap()));
        let four = address("0000000000000000FFFF00000100007F:0001");
        assert_eq!(four, Some(at(1)), "an IPv4 address in the form of IPv6");
        assert_eq!(address("0100007F00:1F90"), None);
    }

    #[test]
    fn a_caller_that_starts_other_programs_is_found_each_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let test = std::process::id();
        // Each program has the connection too. The caller has no parent that could be a tool.
        let calls = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}; while kill -0 {test}; do /bin/true & /bin/true; wait; done"
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", "bash -c \"$0\" 2>/dev/null &", &calls]);
        assert!(shell.status().unwrap().success());
        let (accepted, peer) = listener.accept().unwrap();
        let own = accepted.local_addr().unwrap();
        for _ in 0..100 {
            let found = peer_of(peer, own).unwrap();
            assert!(matches!(found, Peer::User { .. }), "{found:?}");
        }
    }

    #[test]
    fn the_process_at_the_other_end_is_found() {
        let of_test = Peer::User { pid: std::process::id() };
        for ip in ["127.0.0.1", "[::1]", "[::]"] {
            // A machine can be without IPv6.
            let Ok(listener) = TcpListener::bind(format!("{ip}:0")) else { continue };
            let port = listener.local_addr().unwrap().port();
            let ip = ip.replace("[::]", "127.0.0.1");
            let caller = TcpStream::connect(format!("{ip}:{port}")).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let own = accepted.local_addr().unwrap();
            assert_eq!(peer_of(peer, own).unwrap(), of_test, "{ip}");
            let other = SocketAddr::new(peer.ip(), 1);
            assert_eq!(peer_of(other, own).unwrap_err().kind(), io::ErrorKind::NotFound, "{ip}");
            drop(caller);
        }
    }

    #[test]
    fn many_calls_are_looked_for_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let callers: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(own).unwrap()).collect();
        let mut calls: Vec<Call> =
            callers.iter().map(|it| (it.local_addr().unwrap(), own)).collect();
        calls.insert(3, ("127.0.0.1:1".parse().unwrap(), own));
        calls.insert(5, ("192.0.2.7:1".parse().unwrap(), own));
        let found = peers_of(&calls);
        let user = Peer::User { pid: std::process::id() };
        for (at, peer) in found.into_iter().enumerate() {
            match at {
                3 => assert_eq!(peer.unwrap_err().kind(), io::ErrorKind::NotFound),
                5 => assert_eq!(peer.unwrap(), Peer::OtherMachine),
                _ => assert_eq!(peer.unwrap(), user),
            }
        }
    }

    #[test]
    fn an_address_of_another_machine_is_told_apart() {
        let own = "127.0.0.1:80".parse().unwrap();
        // The addresses are reserved for documents.
        for peer in ["192.0.2.7:4711", "[::ffff:192.0.2.7]:4711"] {
            assert_eq!(peer_of(peer.parse().unwrap(), own).unwrap(), Peer::OtherMachine, "{peer}");
        }
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
