//! From where callers reach the server: at which address it listens, under which names, and whether
//! over TLS.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::tls::Certificate;

/// The maximum length of a host name in bytes.
const NAME_BYTES_MOST: usize = 253;

/// The port of HTTPS, which a URL can leave out.
pub(crate) const HTTPS_PORT: u16 = 443;

/// From where callers reach the server.
#[derive(Clone, Debug)]
pub enum Reach {
    /// From this machine, at 127.0.0.1, without TLS. With port 0 the system chooses one.
    Loopback {
        /// The port.
        port: u16,
    },
    /// Through a proxy on this machine, which has the certificate. The server listens at 127.0.0.1,
    /// without TLS.
    Proxy {
        /// The port.
        port: u16,
        /// The address of the proxy, as browsers have it.
        public: PublicUrl,
    },
    /// At this address, over TLS.
    Tls {
        /// The address. With port 0 the system chooses one.
        address: SocketAddr,
        /// The names under which callers may reach the server, besides those of the certificate.
        names: Vec<HostName>,
        /// The certificate.
        certificate: Certificate,
    },
}

impl Reach {
    /// The address to listen at.
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Loopback { port } | Self::Proxy { port, .. } => {
                (Ipv4Addr::LOCALHOST, *port).into()
            }
            Self::Tls { address, .. } => *address,
        }
    }
}

/// A name or an IP address that callers put into a URL, in lower case. An IPv6 address is in
/// brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

/// The reason why a text is no host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a host is a name such as team.example.org, or an IP address, without port and path")]
pub struct HostNameError;

impl HostName {
    /// Reads a host name or an IP address.
    ///
    /// # Errors
    /// [`HostNameError`] if the text has another form.
    pub fn parse(text: &str) -> Result<Self, HostNameError> {
        let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self::of_ip(ip));
        }
        let is_label = |label: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !label.is_empty() && label.len() < 64 && label.bytes().all(is_plain)
        };
        let is_name = text.len() <= NAME_BYTES_MOST && text.split('.').all(is_label);
        is_name.then(|| Self(text.to_ascii_lowercase())).ok_or(HostNameError)
    }

    /// Returns an IP address as a host.
    #[must_use]
    pub fn of_ip(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self(ip.to_string()),
            IpAddr::V6(ip) => Self(format!("[{ip}]")),
        }
    }

    /// Returns the host as it is in a URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the host as it is in a certificate: without brackets.
    pub(crate) fn bare(&self) -> &str {
        self.0.trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The address of a proxy: `https://HOST` or `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    pub(crate) host: HostName,
    pub(crate) port: u16,
}

/// The reason why a text is no public address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address of a proxy is https://HOST or https://HOST:PORT, without a path")]
pub struct PublicUrlError;

impl PublicUrl {
    /// Reads the address of a proxy.
    ///
    /// # Errors
    /// [`PublicUrlError`] if the text has another form.
    pub fn parse(text: &str) -> Result<Self, PublicUrlError> {
        let rest = text.strip_prefix("https://").ok_or(PublicUrlError)?;
        let (host, port) = split_port(rest.strip_suffix('/').unwrap_or(rest));
        let port = port.map_or(Some(HTTPS_PORT), |port| port.parse().ok().filter(|it| *it != 0));
        let host = HostName::parse(host).map_err(|_| PublicUrlError)?;
        Ok(Self { host, port: port.ok_or(PublicUrlError)? })
    }
}

/// Splits `HOST:PORT`. The colons in the brackets of an IPv6 address belong to the host.
pub(crate) fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_nothing_else() {
        let read = |text| HostName::parse(text).ok().map(|host| host.as_str().to_owned());
        for (text, host) in [
            ("Team.Example.org", "team.example.org"),
            ("192.168.1.5", "192.168.1.5"),
            ("::1", "[::1]"),
            ("[2001:DB8::7]", "[2001:db8::7]"),
            ("box", "box"),
        ] {
            assert_eq!(read(text).as_deref(), Some(host));
        }
        let long = "x.".repeat(150);
        for text in
            ["", ".", "a..b", "a b", "a/b", "a:1", "https://a", "*.a", "é", "\u{1b}[m", &long]
        {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(HostName::parse("::1").unwrap().bare(), "::1");
    }

    #[test]
    fn the_address_of_a_proxy_is_https_without_a_path() {
        let read = |text| PublicUrl::parse(text).ok().map(|it| format!("{}:{}", it.host, it.port));
        assert_eq!(read("https://team.example.org").as_deref(), Some("team.example.org:443"));
        assert_eq!(
            read("https://team.example.org:8443/").as_deref(),
            Some("team.example.org:8443")
        );
        assert_eq!(read("https://[::1]:1").as_deref(), Some("[::1]:1"));
        for text in [
            "http://team.example.org",
            "team.example.org",
            "https://team.example.org/teams",
            "https://user@team.example.org",
            "https://team.example.org:0",
            "https://team.example.org:99999",
            "https://team.example.org:",
            "https://",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
