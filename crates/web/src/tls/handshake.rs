//! The beginning of a TLS connection. A caller that is silent or slow is dropped.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::write_timeout::WriteTimeoutStream;

/// How long the handshake may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The first byte of a TLS connection: the kind of the record of a handshake.
const HANDSHAKE: u8 = 0x16;

/// How much of a request without TLS is read before it is answered.
const REQUEST_BYTES: usize = 8 << 10;

/// Makes the TLS connection. A caller that sends HTTP without TLS learns where to call instead.
///
/// # Errors
/// If the caller sends something else, or takes too long.
pub(crate) async fn handshake(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    url: &str,
    write_timeout: Duration,
) -> io::Result<TlsStream<WriteTimeoutStream>> {
    let made = async {
        let mut first = [0];
        match stream.peek(&mut first).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ if first != [HANDSHAKE] => {
                refuse(stream, url).await?;
                Err(io::Error::new(io::ErrorKind::InvalidData, "the caller does not use TLS"))
            }
            _ => acceptor.accept(WriteTimeoutStream::new(stream, write_timeout)).await,
        }
    };
    match tokio::time::timeout(TIMEOUT, made).await {
        Ok(made) => made,
        Err(_late) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Answers a request that was sent without TLS. It is not redirected, because what the caller sent
/// was readable on the way, also its token.
async fn refuse(mut stream: TcpStream, url: &str) -> io::Result<()> {
    // Without a read, the end of the connection could reach the caller before the answer.
    let _request = stream.read(&mut [0; REQUEST_BYTES]).await?;
    let message = format!("this port speaks HTTPS only; call {url}");
    let body =
        serde_json::json!({"success": false, "error": "invalid_request", "message": message});
    let body = body.to_string();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
