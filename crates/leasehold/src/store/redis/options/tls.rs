//! How a server is known by TLS, and the client made known to it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::ClientConfig;

/// The files of a TLS connection. What is not given is the system's: its authorities, and no
/// certificate of the client's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    pub(crate) authority: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) is_insecure: bool,
}

impl TlsFiles {
    /// The system's authorities are trusted, and the client shows no certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// The authorities to trust in place of the system's: a PEM file.
    #[must_use]
    pub fn ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.authority = Some(path.into());
        self
    }

    /// The client's certificate and its key: PEM files.
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.certificate = Some(certificate.into());
        self.key = Some(key.into());
        self
    }

    /// Any server is believed, whatever its certificate. What is sent can then be read and changed
    /// by whoever is in between.
    #[must_use]
    pub fn insecure(mut self) -> Self {
        self.is_insecure = true;
        self
    }
}

/// Where the configuration of TLS comes from.
#[derive(Clone)]
pub(crate) enum Tls {
    /// The caller has made one.
    Config(Arc<ClientConfig>),
    Files(TlsFiles),
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // It may hold a private key.
            Self::Config(_) => f.write_str("(a configuration of the caller's)"),
            Self::Files(files) => files.fmt(f),
        }
    }
}
