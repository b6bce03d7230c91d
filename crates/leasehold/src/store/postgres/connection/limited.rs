//! A socket that refuses a server that answers without end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::store::socket::Stream;

/// The most bytes that a server sends after it was asked: 8 MiB. The answers to our requests have
/// some kB, and a page of a list some hundred kB. A peer that sends more would fill the memory of
/// this process.
const MOST: usize = 8 << 20;

/// A socket, which fails if the server sends too much.
pub(crate) struct Limited {
    pub(super) stream: Box<dyn Stream>,
    /// The number of bytes that have come since the last were sent.
    pub(super) received: usize,
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.received += buffer.filled().len() - before;
        let is_within = self.received <= MOST;
        Poll::Ready(is_within.then_some(()).ok_or_else(|| io::Error::other("it sends too much")))
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.received = 0;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
