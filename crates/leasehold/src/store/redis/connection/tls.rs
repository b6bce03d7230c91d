//! TLS by rustls: whom to trust, who we are. Nothing is installed process-wide.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use leasehold_core::InvalidInput;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::store::redis::options::{Settings, Tls};

/// The configuration that was given, or one from the files that were named; `None` without TLS.
///
/// # Errors
///
/// [`InvalidInput`] names the option whose file is missing or is not what it should be.
pub(crate) fn config(settings: &Settings) -> Result<Option<Arc<ClientConfig>>, InvalidInput> {
    match &settings.tls {
        Tls::Config(config) => Ok(Some(Arc::clone(config))),
        Tls::Off => Ok(None),
        Tls::On => from_options(settings).map(|config| Some(Arc::new(config))),
    }
}

fn from_options(settings: &Settings) -> Result<ClientConfig, InvalidInput> {
    let provider = Arc::new(ring::default_provider());
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("TLS", &error))?;
    let trusting = if settings.insecure {
        let verifier = Arc::new(BelievesAnyServer(provider));
        versions.dangerous().with_custom_certificate_verifier(verifier)
    } else {
        versions.with_root_certificates(authorities(settings.ca.as_deref())?)
    };
    Ok(match (&settings.cert, &settings.key) {
        (Some(certificate), Some(key)) => {
            // There is one at least.
            let key: PrivateKeyDer<'_> = pem("key", key, "private key")?.swap_remove(0);
            trusting
                .with_client_auth_cert(pem("cert", certificate, "certificate")?, key)
                .map_err(|error| invalid("cert", &error))?
        }
        _ => trusting.with_no_client_auth(),
    })
}

fn invalid(option: &str, error: &dyn std::error::Error) -> InvalidInput {
    InvalidInput::new("url", format!("`{option}` cannot be used: {error}"))
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, InvalidInput> {
    fs::read(path).map_err(|error| {
        let why = format!("`{option}` names {}: {error}", path.display());
        InvalidInput::new("url", why)
    })
}

/// What a PEM file has of one kind, which is `what`.
fn pem<T: PemObject>(option: &str, path: &Path, what: &str) -> Result<Vec<T>, InvalidInput> {
    let found: Vec<T> = T::pem_slice_iter(&read(option, path)?)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(option, &error))?;
    if found.is_empty() {
        let why = format!("`{option}` names {}: no {what}", path.display());
        return Err(InvalidInput::new("url", why));
    }
    Ok(found)
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, InvalidInput> {
    let mut store = RootCertStore::empty();
    let Some(file) = file else {
        // What cannot be read or understood is skipped: systems carry such certificates, and a
        // server that needs one of them is refused by name later.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(store);
    };
    for certificate in pem::<CertificateDer<'_>>("ca", file, "certificate")? {
        store.add(certificate).map_err(|error| invalid("ca", &error))?;
    }
    Ok(store)
}

/// What `insecure=on` asks for: whoever answers is taken for the server.
#[derive(Debug)]
struct BelievesAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for BelievesAnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::options::RedisOptions;

    #[test]
    fn a_file_that_is_missing_or_no_certificate_is_named() {
        let refusal = |ca: &str| {
            let options = RedisOptions::standalone("h", 1).tls().ca(ca);
            config(&options.0).unwrap_err().why
        };
        let why = refusal("/nowhere/ca.pem");
        assert!(why.contains("`ca`") && why.contains("/nowhere/ca.pem"), "{why}");
        let why = refusal("/dev/null");
        assert!(why.contains("no certificate"), "{why}");
    }
}
