//! The addresses of the server as callers write them: in links, in the headers Host and Origin, and
//! in the names of cookies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::reach::{HTTPS_PORT, HostName, Reach, split_port};

/// The names by which programs reach a server on their own machine.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The addresses to which the system finds a way without sending anything. They are reserved for
/// documents.
const FAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// The addresses of a server.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The origin of links, such as `https://team.example.org`.
    url: String,
    /// The port of links.
    port: u16,
    /// The hosts that a request may name.
    hosts: Vec<Host>,
    /// Whether a request may also name the IP address at which it arrived.
    takes_own_ip: bool,
    is_https: bool,
    /// Whether browsers may insist on HTTPS for this host from now on.
    insists_on_https: bool,
}

/// A host that a request may name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    scheme: &'static str,
    /// A name or address as in a URL. A name of a certificate can begin with `*.`.
    name: String,
    port: u16,
}

impl Host {
    /// Whether `given` is this host. The port can be left out if it is that of the scheme.
    fn is(&self, given: &str) -> bool {
        let (name, port) = split_port(given);
        let port = match port {
            Some(port) => port.parse().ok(),
            None => Some(if self.scheme == "https" { HTTPS_PORT } else { 80 }),
        };
        port == Some(self.port) && fits(&self.name, name)
    }
}

/// Whether a name of a certificate is the name of a host. A `*` is for one part of the name.
fn fits(own: &str, given: &str) -> bool {
    match own.strip_prefix("*.") {
        Some(rest) => given
            .split_once('.')
            .is_some_and(|(first, given)| !first.is_empty() && given.eq_ignore_ascii_case(rest)),
        None => own.eq_ignore_ascii_case(given),
    }
}

impl Site {
    /// Returns the addresses of a server that listens at `address`.
    pub(crate) fn new(reach: &Reach, address: SocketAddr) -> Self {
        let port = address.port();
        let local =
            |scheme| LOOPBACK.map(|name| Host { scheme, name: name.to_owned(), port }).into_iter();
        match reach {
            Reach::Loopback { .. } => Self {
                url: format!("http://127.0.0.1:{port}"),
                port,
                hosts: local("http").collect(),
                takes_own_ip: false,
                is_https: false,
                insists_on_https: false,
            },
            Reach::Proxy { public, .. } => {
                let (name, port) = (public.host.to_string(), public.port);
                // Programs on this machine need not go through the proxy.
                let hosts =
                    local("http").chain([Host { scheme: "https", name: name.clone(), port }]);
                let hosts = hosts.collect();
                let url = https(&name, port);
                let (is_https, insists_on_https) = (true, false);
                Self { url, port, hosts, takes_own_ip: false, is_https, insists_on_https }
            }
            Reach::Tls { names, certificate, .. } => {
                let given = names.iter().map(HostName::as_str);
                let all = given.chain(certificate.names().iter().map(String::as_str));
                let mut hosts: Vec<Host> = local("https").collect();
                hosts.extend(all.map(|name| Host { scheme: "https", name: name.to_owned(), port }));
                let linked = hosts.iter().skip(LOOPBACK.len()).find(|it| !it.name.starts_with('*'));
                let linked = linked.map_or_else(|| own_ip(address.ip()), |it| it.name.clone());
                // The rule of a browser is for all ports of a host. So only the server that has the
                // usual port sets it, and only with a certificate that browsers trust.
                let insists_on_https = port == HTTPS_PORT && !certificate.is_self_signed();
                let url = https(&linked, port);
                Self { url, port, hosts, takes_own_ip: true, is_https: true, insists_on_https }
            }
        }
    }

    /// The origin of links.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether browsers reach the server over HTTPS.
    pub(crate) fn is_https(&self) -> bool {
        self.is_https
    }

    /// Whether browsers may insist on HTTPS for this host from now on.
    pub(crate) fn insists_on_https(&self) -> bool {
        self.insists_on_https
    }

    /// Whether a request that arrived at the address `own` may name this host.
    pub(crate) fn is_own_host(&self, host: &str, own: Option<IpAddr>) -> bool {
        self.hosts.iter().any(|it| it.is(host)) || self.is_own_ip(host, own)
    }

    /// Whether a page of this origin is ours.
    pub(crate) fn is_own_origin(&self, origin: &str, own: Option<IpAddr>) -> bool {
        let Some((scheme, host)) = origin.split_once("://") else { return false };
        self.hosts.iter().any(|it| it.scheme == scheme && it.is(host))
            || (scheme == "https" && self.is_own_ip(host, own))
    }

    /// No name leads to an IP address, so a page of another site cannot have it as its host.
    fn is_own_ip(&self, host: &str, own: Option<IpAddr>) -> bool {
        let Some(own) = own.filter(|_| self.takes_own_ip) else { return false };
        let name = HostName::of_ip(own).to_string();
        Host { scheme: "https", name, port: self.port }.is(host)
    }

    /// The hosts that a request may name, for an error message.
    pub(crate) fn valid_hosts(&self) -> Vec<String> {
        let mut all: Vec<String> =
            self.hosts.iter().map(|host| format!("{}:{}", host.name, host.port)).collect();
        all.dedup();
        all
    }

    /// The name of a cookie. It has the port, because a browser sends a cookie to all ports of a
    /// host, and several servers can run. Over HTTPS its prefix keeps other sites from setting it.
    pub(crate) fn cookie(&self, kind: &str) -> String {
        let prefix = if self.is_https { "__Host-" } else { "" };
        format!("{prefix}{kind}-{}", self.port)
    }
}

fn https(name: &str, port: u16) -> String {
    match port {
        HTTPS_PORT => format!("https://{name}"),
        port => format!("https://{name}:{port}"),
    }
}

/// Returns the IP address for links to a server that listens at `ip`. If it listens at all
/// addresses, the result is the one from which this machine calls others.
fn own_ip(ip: IpAddr) -> String {
    HostName::of_ip(reached_at(ip)).to_string()
}

/// Returns the address at which others reach a server that listens at `ip`.
#[must_use]
pub fn reached_at(ip: IpAddr) -> IpAddr {
    if !ip.is_unspecified() {
        return ip;
    }
    let outwards = |far: &IpAddr| {
        let any: IpAddr = match far {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        // To connect a UDP socket sends nothing.
        socket.connect((*far, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    let is_reachable = |far: &&IpAddr| ip.is_ipv6() || far.is_ipv4();
    let found = FAR.iter().filter(is_reachable).find_map(outwards);
    found.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::PublicUrl;

    #[test]
    fn a_wildcard_is_for_one_part_of_a_name() {
        assert!(fits("*.example.org", "team.Example.org"));
        for other in ["example.org", ".example.org", "a.b.example.org", "team.example.com"] {
            assert!(!fits("*.example.org", other), "{other}");
        }
    }

    #[test]
    fn behind_a_proxy_the_public_name_counts_and_its_port_can_be_left_out() {
        let public = PublicUrl::parse("https://team.example.org").unwrap();
        let reach = Reach::Proxy { port: 7420, public };
        let site = Site::new(&reach, "127.0.0.1:7420".parse().unwrap());
        assert_eq!(site.url(), "https://team.example.org");
        for host in ["team.example.org", "TEAM.example.org:443", "127.0.0.1:7420"] {
            assert!(site.is_own_host(host, None), "{host}");
        }
        let own = Some("127.0.0.1".parse().unwrap());
        for host in ["team.example.org:7420", "team.example.org:80", "127.0.0.1", "example.org"] {
            assert!(!site.is_own_host(host, own), "{host}");
        }
        for (origin, is_own) in [
            ("https://team.example.org", true),
            ("http://team.example.org", false),
            ("http://127.0.0.1:7420", true),
            ("https://127.0.0.1:7420", false),
            ("null", false),
        ] {
            assert_eq!(site.is_own_origin(origin, own), is_own, "{origin}");
        }
        assert_eq!(site.cookie("pitcrew"), "__Host-pitcrew-443");
    }
}
