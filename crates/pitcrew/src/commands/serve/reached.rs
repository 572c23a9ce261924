//! From where callers reach the server, as the command line says.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use pitcrew_process::given_file::Given;
use pitcrew_team::SystemClock;
use pitcrew_team::store::FileBackend;
use pitcrew_web::{Certificate, CertificateError, HostName, PublicUrl, Reach, reached_at};

use super::PORT;
use crate::failure::{Explained, Failure, FailureKind};
use crate::output::visible;

/// The maximum length of a file with a certificate or a key.
const PEM_BYTES_MOST: u64 = 1 << 20;

/// The flags that say from where callers reach the server.
#[derive(Debug, clap::Args)]
pub(super) struct Reached {
    /// The port; 0 takes a free one [default: 7420]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Listen at this address of this machine, also for other machines, over TLS
    ///
    /// 0.0.0.0 is every IPv4 address, `[::]` also every IPv6 address.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = listening)]
    listen: Option<Listening>,

    /// The certificate for TLS, with those of its issuers, as a PEM file
    ///
    /// Without it the server makes a certificate once and signs it itself. Browsers warn of it: its
    /// fingerprint is printed, to be compared.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// A name or an IP address under which callers reach the server; can be repeated
    ///
    /// Requests that name another host are refused. The names in a given certificate and the
    /// address at which a request arrives are always allowed.
    #[arg(long = "name", value_name = "HOST", value_parser = HostName::parse, requires = "listen")]
    names: Vec<HostName>,

    /// The address of a proxy on this machine that passes requests on
    ///
    /// The server listens at 127.0.0.1 only, and the proxy has the certificate.
    #[arg(long, value_name = "https://HOST", value_parser = PublicUrl::parse,
        conflicts_with_all = ["listen", "tls_cert", "names"])]
    behind_proxy: Option<PublicUrl>,
}

/// An address to listen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listening {
    ip: IpAddr,
    port: Option<u16>,
}

fn listening(text: &str) -> Result<Listening, &'static str> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Listening { ip: address.ip(), port: Some(address.port()) });
    }
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
    match bare.parse() {
        Ok(ip) => Ok(Listening { ip, port: None }),
        Err(_) => Err("it must be an IP address, such as 0.0.0.0, 192.168.1.5:8443 or [::]:8443"),
    }
}

impl Reached {
    /// Returns the flags of a server of this machine on a free port.
    pub(super) fn on_free_port() -> Self {
        let (listen, tls_cert, tls_key, behind_proxy) = (None, None, None, None);
        Self { port: Some(0), listen, tls_cert, tls_key, names: Vec::new(), behind_proxy }
    }

    /// Returns from where callers reach the server. Makes a certificate if one is needed.
    pub(super) async fn reach(self, files: &FileBackend) -> Result<Reach, Failure> {
        let given = self.listen.and_then(|listen| listen.port);
        if let (Some(one), Some(other)) = (given, self.port)
            && one != other
        {
            let said = format!("--listen has the port {one} and --port is {other}");
            return Err(Failure::usage(said));
        }
        let port = given.or(self.port).unwrap_or(PORT);
        if let Some(public) = self.behind_proxy {
            return Ok(Reach::Proxy { port, public });
        }
        let ip = self.listen.map_or(Ipv4Addr::LOCALHOST.into(), |listen| listen.ip);
        let files_given = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        if files_given.is_none() && ip == IpAddr::V4(Ipv4Addr::LOCALHOST) && self.names.is_empty() {
            return Ok(Reach::Loopback { port });
        }
        let names = self.names;
        let certificate = match files_given {
            Some((certificate, key)) => given_certificate(certificate, key, &names)?,
            None => Certificate::self_signed(files, &SystemClock, &names, reached_at(ip))
                .await
                .map_err(Failure::internal)?,
        };
        Ok(Reach::Tls { address: SocketAddr::new(ip, port), names, certificate })
    }
}

fn given_certificate(
    certificate: &Path,
    key: &Path,
    names: &[HostName],
) -> Result<Certificate, Failure> {
    let (certificates, keys) = (pem(certificate)?, pem(key)?);
    let read = Certificate::given(&certificates, &keys).map_err(|error| {
        let path = match &error {
            CertificateError::Key => key,
            CertificateError::Certificate
            | CertificateError::LongChain
            | CertificateError::Pair(_)
            | CertificateError::Made(_)
            | CertificateError::Store(_) => certificate,
        };
        Failure::new(
            FailureKind::Usage,
            Explained::new(format!("cannot use {}", shown(path)), error),
        )
    })?;
    if let Some(name) = names.iter().find(|name| !read.is_for(name)) {
        let said = format!("the certificate {} is not for {name}", shown(certificate));
        let valid = match read.names() {
            [] => "it has no names".to_owned(),
            names => format!("it is for: {}", names.join(", ")),
        };
        return Err(Failure::usage(said).hint(valid));
    }
    Ok(read)
}

fn pem(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |error| {
        let said = format!("cannot read {}", shown(path));
        Failure::new(FailureKind::Usage, Explained::new(said, error))
    };
    let content = Given::ByUser.read(path, PEM_BYTES_MOST).map_err(cannot)?;
    content.ok_or_else(|| Failure::usage(format!("there is no file {}", shown(path))))
}

fn shown(path: &Path) -> String {
    visible(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_or_none() {
        let read = |text| listening(text).map(|it| (it.ip.to_string(), it.port)).ok();
        let expected = |ip: &str, port| Some((ip.to_owned(), port));
        assert_eq!(read("0.0.0.0"), expected("0.0.0.0", None));
        assert_eq!(read("192.168.1.5:8443"), expected("192.168.1.5", Some(8443)));
        assert_eq!(read("::"), expected("::", None));
        assert_eq!(read("[::]"), expected("::", None));
        assert_eq!(read("[::1]:0"), expected("::1", Some(0)));
        for other in ["", "localhost", "0.0.0.0:", ":8443", "0.0.0.0:99999", "https://0.0.0.0"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
