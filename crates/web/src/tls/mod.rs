//! TLS: the certificate of the server, given or made here.

mod handshake;
mod self_signed;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use pitcrew_team::Clock;
use pitcrew_team::store::{FileBackend, StoreError};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;
use webpki::EndEntityCert;

pub(crate) use handshake::handshake;

use crate::reach::HostName;

/// The maximum number of certificates in a chain.
const CHAIN_MOST: usize = 16;

/// The certificate with which the server shows who it is, and its private key.
#[derive(Clone)]
pub struct Certificate {
    config: Arc<ServerConfig>,
    fingerprint: String,
    leaf: CertificateDer<'static>,
    /// The names for which the certificate is used. A name can begin with `*.`.
    names: Vec<String>,
    origin: Origin,
}

/// Where a certificate is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Given,
    SelfSigned,
}

/// The reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The file has no certificate, or one that cannot be read.
    #[error("the file of the certificate has none in PEM form")]
    Certificate,
    /// The chain is too long.
    #[error("the file of the certificate has more than {CHAIN_MOST} certificates")]
    LongChain,
    /// The file has no private key, or one that cannot be read.
    #[error("the file of the key has no private key in PEM form")]
    Key,
    /// The certificate or the key has a form that TLS does not accept, or they are not a pair.
    #[error("the certificate and the key cannot be used")]
    Pair(#[source] rustls::Error),
    /// A self-signed certificate cannot be made.
    #[error("a certificate cannot be made")]
    Made(#[source] rcgen::Error),
    /// The file of the certificate cannot be read or written.
    #[error("the certificate of the server cannot be kept")]
    Store(#[from] StoreError),
}

impl Certificate {
    /// Reads a certificate, with those of its issuers after it, and its private key. Both are in
    /// PEM form.
    ///
    /// # Errors
    /// If one of them has another form, or if they are not a pair.
    pub fn given(certificates: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
            .take(CHAIN_MOST + 1)
            .collect::<Result<_, _>>()
            .map_err(|_| CertificateError::Certificate)?;
        if chain.len() > CHAIN_MOST {
            return Err(CertificateError::LongChain);
        }
        let leaf = chain.first().ok_or(CertificateError::Certificate)?;
        let parsed = EndEntityCert::try_from(leaf).map_err(|_| CertificateError::Certificate)?;
        let names = parsed.valid_dns_names().map(str::to_ascii_lowercase).collect();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateError::Key)?;
        Self::new(chain, key, names, Origin::Given)
    }

    /// Returns the certificate below the root that pitcrew has signed itself. Makes one if there is
    /// none, if its time is over soon, or if it lacks one of these names. A new one is also for the
    /// address. If the root cannot be written, a new certificate is in no file.
    ///
    /// # Errors
    /// If it cannot be made, read or written.
    pub async fn self_signed(
        files: &FileBackend,
        clock: &dyn Clock,
        names: &[HostName],
        address: IpAddr,
    ) -> Result<Self, CertificateError> {
        let self_signed::Kept { certificate, key } =
            self_signed::kept(files, clock.now_ms(), names, address).await?;
        let names = names.iter().map(HostName::to_string).collect();
        let key = PrivateKeyDer::try_from(key).map_err(|_| CertificateError::Key)?;
        Self::new(vec![certificate.into()], key, names, Origin::SelfSigned)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        names: Vec<String>,
        origin: Origin,
    ) -> Result<Self, CertificateError> {
        let leaf = chain.first().ok_or(CertificateError::Certificate)?.clone();
        let fingerprint = fingerprint_of(&leaf);
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Pair)?;
        let mut config = config
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(CertificateError::Pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), fingerprint, leaf, names, origin })
    }

    /// The SHA-256 of the certificate, in the form `AB:CD:...` that browsers show.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Whether pitcrew has signed the certificate itself, so that no browser trusts it unasked.
    #[must_use]
    pub fn is_self_signed(&self) -> bool {
        self.origin == Origin::SelfSigned
    }

    /// Whether the certificate is for this host.
    #[must_use]
    pub fn is_for(&self, host: &HostName) -> bool {
        let parsed = EndEntityCert::try_from(&self.leaf);
        let name = ServerName::try_from(host.bare());
        let (Ok(parsed), Ok(name)) = (parsed, name) else { return false };
        parsed.verify_is_valid_for_subject_name(&name).is_ok()
    }

    /// The names for which the certificate is used. A name can begin with `*.`.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Certificate {
    /// Returns the acceptor of connections.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fingerprint, names, .. } = self;
        f.debug_struct("Certificate")
            .field("fingerprint", fingerprint)
            .field("names", names)
            .finish_non_exhaustive()
    }
}

fn fingerprint_of(certificate: &[u8]) -> String {
    let digest = Sha256::digest(certificate);
    let bytes: Vec<String> = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}
