//! TLS, with a certificate from a file.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::args::Serve;
use crate::report::Failure;

/// The acceptor of TLS connections, if a certificate was given.
///
/// # Errors
///
/// If the files cannot be read, or do not match each other.
pub(super) fn acceptor(args: &Serve) -> Result<Option<TlsAcceptor>, Failure> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain: Vec<_> = chain.map_err(|error| wrong("--tls-cert", certificate, error))?;
    let private = PrivateKeyDer::from_pem_file(key);
    let private = private.map_err(|error| wrong("--tls-key", key, error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|error| {
        let (certificate, key) = (certificate.display(), key.display());
        Failure::usage(format!("--tls-cert {certificate} --tls-key {key}: {error}"))
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn wrong(option: &str, path: &Path, error: pem::Error) -> Failure {
    Failure::usage(format!("{option} {}: {error}: give a file in PEM format", path.display()))
}
