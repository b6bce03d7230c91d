//! Whether a session is with the server itself, or with a pooler that may give each transaction to
//! another session.
//!
//! A server names its own process for cancel requests. A pooler makes a number up, because it
//! passes cancel requests on. The driver shows the number only in the message of such a request.

use std::future::{Ready, ready};
use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use super::limited::Limited;

/// What a client asks for before anything else, if it uses TLS. Every server answers with one byte.
pub(super) const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// The message that asks the server, or the pooler, to end what a session waits for.
pub(super) async fn cancel_request(client: &Client) -> io::Result<[u8; 16]> {
    let (ours, mut theirs) = duplex(64);
    let token = client.cancel_token();
    let reading = async {
        let mut message = [0; 16];
        theirs.read_exact(&mut message[..8]).await?;
        if message[..8] == SSL_REQUEST {
            theirs.write_all(b"S").await?;
            theirs.read_exact(&mut message[..8]).await?;
        }
        theirs.read_exact(&mut message[8..]).await?;
        Ok(message)
    };
    tokio::join!(token.cancel_query_raw(ours, Unencrypted), reading).1
}

/// Whether the process that a cancel request would name is the one that answers requests.
pub(super) async fn is_direct(client: &Client, answering: i32) -> bool {
    let message = cancel_request(client).await;
    message.is_ok_and(|message| message[8..12] == answering.to_be_bytes())
}

/// TLS that encrypts nothing: these bytes do not leave the process.
struct Unencrypted;

impl TlsConnect<DuplexStream> for Unencrypted {
    type Stream = Limited;
    type Error = io::Error;
    type Future = Ready<io::Result<Limited>>;

    fn connect(self, stream: DuplexStream) -> Self::Future {
        ready(Ok(Limited { stream: Box::new(stream), received: 0 }))
    }
}

impl TlsStream for Limited {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
