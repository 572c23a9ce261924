//! A server that other machines can reach: over TLS, and behind a proxy.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitcrew_team::SystemClock;
use pitcrew_team::store::{Durability, FileBackend, FileOptions};
use pitcrew_web::{Certificate, HostName, PublicUrl, Reach, Scope};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{Answer, Client, Request, read_answer};
use crate::server_env::ServerEnv;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Takes the one certificate with this fingerprint, as a person does who compares it.
#[derive(Debug)]
struct Pinned {
    fingerprint: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let bytes: Vec<String> =
            Sha256::digest(end_entity).iter().map(|byte| format!("{byte:02X}")).collect();
        match bytes.join(":") == self.fingerprint {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(Error::General("another certificate".to_owned())),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A server over TLS.
struct TlsEnv {
    env: ServerEnv,
    fingerprint: String,
}

impl TlsEnv {
    /// A server with a certificate that it has made.
    async fn self_signed(names: &[HostName]) -> Self {
        let kept = TempDir::new().unwrap();
        let certificate = self_signed(&kept, names).await;
        Self::with(certificate, names).await
    }

    async fn with(certificate: Certificate, names: &[HostName]) -> Self {
        let fingerprint = certificate.fingerprint().to_owned();
        let address = SocketAddr::new(LOOPBACK, 0);
        let reach = Reach::Tls { address, names: names.to_vec(), certificate };
        Self { env: ServerEnv::reached(reach).await, fingerprint }
    }

    /// Connects, and accepts only the certificate with this fingerprint.
    async fn connect(&self, fingerprint: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(ring::default_provider());
        let fingerprint = fingerprint.to_owned();
        let verifier = Pinned { fingerprint, provider: Arc::clone(&provider) };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let stream = TcpStream::connect(self.env.client.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn send_as(&self, client: &Client, request: Request) -> Answer {
        let mut stream = self.connect(&self.fingerprint).await.unwrap();
        stream.write_all(&request.bytes(client)).await.unwrap();
        read_answer(&mut stream).await
    }

    async fn send(&self, request: Request) -> Answer {
        self.send_as(&self.env.client, request).await
    }

    fn authority(&self, name: &str) -> String {
        format!("{name}:{}", self.env.client.address.port())
    }
}

fn files_in(root: &TempDir) -> FileBackend {
    FileBackend::open(root.path(), FileOptions::new(Durability::Process))
}

async fn self_signed(root: &TempDir, names: &[HostName]) -> Certificate {
    Certificate::self_signed(&files_in(root), &SystemClock, names, LOOPBACK).await.unwrap()
}

fn host(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

#[tokio::test]
async fn the_fingerprint_is_that_of_the_served_certificate_and_stays() {
    let kept = TempDir::new().unwrap();
    let certificate = self_signed(&kept, &[]).await;
    let again = self_signed(&kept, &[]).await;
    assert_eq!(certificate.fingerprint(), again.fingerprint());
    let file = kept.path().join("pitcrew/web/self-signed.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let tls = TlsEnv::with(certificate, &[]).await;
    tls.send(Request::new("GET", "/api/teams")).await.of(200);
    let other = self_signed(&TempDir::new().unwrap(), &[]).await;
    assert_ne!(other.fingerprint(), tls.fingerprint);
    tls.connect(other.fingerprint()).await.unwrap_err();
}

#[tokio::test]
async fn a_browser_gets_in_over_tls_with_a_secure_cookie() {
    let tls = TlsEnv::self_signed(&[host("box.home")]).await;
    let link = tls.env.link.clone();
    let origin = format!("https://{}", tls.authority("box.home"));
    let path = link.strip_prefix(&origin).unwrap_or_else(|| panic!("{link}"));
    let opened = tls.send(Request::new("GET", path).bare()).await;
    assert_eq!((opened.status, opened.header("Location")), (303, Some("/")));
    let whole = opened.header("Set-Cookie").unwrap();
    for attribute in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(whole.split("; ").any(|it| it == attribute), "{whole}");
    }
    assert!(whole.starts_with("__Host-pitcrew-"), "{whole}");
    let cookie = whole.split(';').next().unwrap();
    let with_cookie = |method: &str| {
        Request::new(method, "/api/teams")
            .bare()
            .header("Cookie", cookie)
            .header("Host", &origin[8..])
    };
    let read = tls.send(with_cookie("GET")).await;
    read.of(200);
    // A browser would refuse the host for months if the certificate changed.
    assert_eq!(read.header("Strict-Transport-Security"), None);
    let change = with_cookie("POST").json(&json!({"team_name": "x"}));
    tls.send(change.clone().header("Origin", &origin.replace("https", "http")))
        .await
        .error(403, "forbidden");
    tls.send(change.header("Origin", &origin)).await.of(201);
}

#[tokio::test]
async fn another_host_is_refused_over_tls_and_the_valid_ones_are_named() {
    let tls = TlsEnv::self_signed(&[host("box.home")]).await;
    for name in ["127.0.0.1", "localhost", "box.home", "BOX.home"] {
        let request = Request::new("GET", "/api/teams").header("Host", &tls.authority(name));
        tls.send(request).await.of(200);
    }
    for name in ["evil.example", "192.0.2.7", "box.home.evil.example"] {
        let request = Request::new("GET", "/api/teams").header("Host", &tls.authority(name));
        let refused = tls.send(request).await.error(403, "forbidden");
        let valid = refused["details"]["valid_hosts"].as_array().unwrap();
        assert!(valid.contains(&json!(tls.authority("box.home"))), "{refused}");
    }
}

#[tokio::test]
async fn a_device_that_watches_reads_over_tls_and_writes_nothing() {
    let tls = TlsEnv::self_signed(&[]).await;
    tls.env.team("work", &["bob"]).await;
    let code = tls.env.devices().invite(Some("phone".to_owned()), Scope::Watch).await.unwrap().code;
    let paired = Request::new("POST", "/pair").json(&json!({"code": code})).bare();
    let paired = tls.send(paired).await.of(201);
    let phone = Client::new(tls.env.client.address, paired["token"].as_str().unwrap());
    tls.send_as(&phone, Request::new("GET", "/api/teams/work")).await.of(200);
    let message = Request::new("POST", "/api/teams/work/messages")
        .json(&json!({"to": "bob", "content": "hello"}));
    tls.send_as(&phone, message).await.error(403, "forbidden");
    let bare = Request::new("GET", "/api/teams/work").bare();
    tls.send(bare).await.error(401, "unauthorized");
}

#[tokio::test]
async fn a_request_without_tls_is_told_where_to_call() {
    let tls = TlsEnv::self_signed(&[]).await;
    let answer = tls.env.client.get("/api/teams").await;
    let refused = answer.error(400, "invalid_request");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains(&format!("https://{}", tls.authority("127.0.0.1"))), "{message}");
    assert_eq!(answer.header("Location"), None);
    tls.send(Request::new("GET", "/api/teams")).await.of(200);
}

#[tokio::test]
async fn a_silent_handshake_is_dropped_and_delays_nobody() {
    let tls = TlsEnv::self_signed(&[]).await;
    let address = tls.env.client.address;
    let mut silent = Vec::new();
    for begins in [b"".as_slice(), b"\x16", b"\x16\x03\x01\x02\x00"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(begins).await.unwrap();
        silent.push(stream);
    }
    let began = Instant::now();
    tls.send(Request::new("GET", "/api/teams")).await.of(200);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for mut stream in silent {
        let ended = tokio::time::timeout(Duration::from_secs(60), async {
            let _reset = stream.read_to_end(&mut Vec::new()).await;
        });
        ended.await.expect("a silent caller keeps its connection");
    }
}

/// A certificate for this name and its key, in PEM form.
fn given(name: &str) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let wanted = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = wanted.self_signed(&key).unwrap();
    let pem = |kind: &str, der: &[u8]| {
        let text = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, der);
        format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
    };
    (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der()))
}

#[tokio::test]
async fn a_given_certificate_says_which_names_are_valid() {
    let (certificate, key) = given("team.example.org");
    let read = Certificate::given(certificate.as_bytes(), key.as_bytes()).unwrap();
    assert!(read.is_for(&host("team.example.org")) && !read.is_for(&host("other.example.org")));
    let tls = TlsEnv::with(read, &[]).await;
    let own = tls.authority("team.example.org");
    assert!(tls.env.link.starts_with(&format!("https://{own}/open/")), "{}", tls.env.link);
    tls.send(Request::new("GET", "/api/teams").header("Host", &own)).await.of(200);
    let (_, other_key) = given("team.example.org");
    for (certificate, key) in [
        (certificate.as_str(), other_key.as_str()),
        (key.as_str(), key.as_str()),
        ("", key.as_str()),
        (certificate.as_str(), ""),
    ] {
        Certificate::given(certificate.as_bytes(), key.as_bytes()).unwrap_err();
    }
}

#[tokio::test]
async fn behind_a_proxy_the_public_name_counts_and_forwarded_headers_do_not() {
    let public = PublicUrl::parse("https://team.example.org").unwrap();
    let env = ServerEnv::reached(Reach::Proxy { port: 0, public }).await;
    let path = env.link.strip_prefix("https://team.example.org").unwrap();
    // The proxy sends the host that the browser has named.
    let from_proxy = |request: Request| request.bare().header("Host", "team.example.org");
    let opened = env.client.send(from_proxy(Request::new("GET", path))).await;
    let whole = opened.header("Set-Cookie").unwrap();
    assert!(whole.contains("; Secure") && whole.starts_with("__Host-pitcrew-443="), "{whole}");
    let cookie = whole.split(';').next().unwrap();
    let change = from_proxy(Request::new("POST", "/api/teams").json(&json!({"team_name": "x"})))
        .header("Cookie", cookie);
    let own = change.clone().header("Origin", "https://team.example.org");
    env.client.send(own).await.of(201);
    let other = change.clone().header("Origin", "http://team.example.org");
    env.client.send(other).await.error(403, "forbidden");
    let forwarded = Request::new("GET", "/api/teams")
        .header("Host", "evil.example")
        .header("X-Forwarded-Host", "team.example.org")
        .header("Forwarded", "host=team.example.org;proto=https");
    env.client.send(forwarded).await.error(403, "forbidden");
    // A program on this machine calls without the proxy.
    env.client.get("/api/teams").await.of(200);
}
