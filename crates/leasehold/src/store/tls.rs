//! TLS by rustls: the servers to trust, and the client's own certificate. Nothing is installed
//! process-wide.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_core::InvalidInput;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::place::invalid as refusal;

/// A TLS configuration that the program makes with [the rustls that leasehold
/// uses](crate::store::rustls). No `Debug` shows it, because it may have a private key.
#[derive(Clone)]
pub struct TlsConfig(pub Arc<ClientConfig>);

impl PartialEq for TlsConfig {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TlsConfig {}

debug_as!(TlsConfig => |_, f| f.write_str("(a configuration of the program)"));

/// The options of a store URL that name an authority, a certificate and its key, with their files.
pub(crate) type TlsFiles = [(&'static str, Option<PathBuf>); 3];

/// The TLS configuration of each new connection.
#[derive(Clone, Debug)]
pub(crate) enum Tls {
    /// The configuration of the program, or one that names no file.
    Fixed(TlsConfig),
    /// The files may be replaced, so each new connection reads them.
    Files(Trust, TlsFiles),
}

impl Tls {
    /// The configuration of the program, or one from files and options.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the option whose file is missing or not valid.
    pub(crate) fn new(
        own: Option<&TlsConfig>,
        trust: Trust,
        files: TlsFiles,
    ) -> Result<Self, InvalidInput> {
        if let Some(own) = own {
            return Ok(Self::Fixed(own.clone()));
        }
        let config = read_all(trust, &files)?;
        let names_any = files.iter().any(|(_, path)| path.is_some());
        Ok(if names_any { Self::Files(trust, files) } else { Self::Fixed(TlsConfig(config)) })
    }

    /// The configuration for a connection that is opened now.
    ///
    /// # Errors
    ///
    /// Those of [`Tls::new`].
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, InvalidInput> {
        match self {
            Self::Fixed(config) => Ok(Arc::clone(&config.0)),
            Self::Files(trust, files) => read_all(*trust, files),
        }
    }
}

/// The servers that are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "`sslmode` has all of them"))]
pub(crate) enum Trust {
    /// Any server that answers.
    Anybody,
    /// A server with a certificate of a known authority, for any name.
    AnyName,
    /// A server with a certificate of a known authority, for the name that was asked for.
    Name,
}

/// Refuses files that have no effect, or belong together: authorities, certificate and key. Without
/// TLS, `off` says why.
pub(crate) fn check(
    files: &TlsFiles,
    has_config: bool,
    off: Option<&str>,
) -> Result<(), InvalidInput> {
    let [_, (cert, certificate), (key, private)] = files;
    let given = files.iter().find(|(_, file)| file.is_some()).map(|(name, _)| name);
    match (given, off) {
        (Some(name), _) if has_config => Err(refusal(format!(
            "`{name}` is a part of the TLS configuration that the program gives: set it there"
        ))),
        (Some(name), Some(off)) => {
            Err(refusal(format!("`{name}` in the store URL is for TLS: {off}")))
        }
        _ if certificate.is_some() != private.is_some() => {
            Err(refusal(format!("`{cert}` and `{key}` go together: give both")))
        }
        _ => Ok(()),
    }
}

fn read_all(trust: Trust, [ca, cert, key]: &TlsFiles) -> Result<Arc<ClientConfig>, InvalidInput> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("TLS", &error))?;
    let lenient = |authority| Arc::new(Lenient { algorithms, authority });
    let trusting = match trust {
        Trust::Anybody => versions.dangerous().with_custom_certificate_verifier(lenient(None)),
        Trust::AnyName => {
            let roots = Arc::new(authorities(ca)?);
            let authority = WebPkiServerVerifier::builder_with_provider(roots, provider);
            let authority = authority.build().map_err(|error| invalid(ca.0, &error))?;
            versions.dangerous().with_custom_certificate_verifier(lenient(Some(authority)))
        }
        Trust::Name => versions.with_root_certificates(authorities(ca)?),
    };
    Ok(Arc::new(match (cert, key) {
        ((cert, Some(certificate)), (key, Some(path))) => {
            // `pem` returns at least one.
            let private: PrivateKeyDer<'_> = pem(key, path, "private key")?.swap_remove(0);
            trusting
                .with_client_auth_cert(pem(cert, certificate, "certificate")?, private)
                .map_err(|error| invalid(cert, &error))?
        }
        _ => trusting.with_no_client_auth(),
    }))
}

fn invalid(option: &str, error: &dyn std::error::Error) -> InvalidInput {
    refusal(format!("`{option}` cannot be used: {error}"))
}

/// The items of one kind, named `what`, in a PEM file.
fn pem<T: PemObject>(option: &str, path: &Path, what: &str) -> Result<Vec<T>, InvalidInput> {
    let wrong =
        |why: &dyn fmt::Display| refusal(format!("`{option}` names {}: {why}", path.display()));
    let found = T::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<T>, _>>);
    let found = found.map_err(|error| wrong(&error))?;
    if found.is_empty() { Err(wrong(&format_args!("no {what}"))) } else { Ok(found) }
}

fn authorities((option, file): &(&str, Option<PathBuf>)) -> Result<RootCertStore, InvalidInput> {
    let mut store = RootCertStore::empty();
    let Some(file) = file else {
        // Certificates that cannot be read or understood are skipped: some systems have them. If a
        // server's certificate needs one of them, a later error names that server.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(store);
    };
    for certificate in pem::<CertificateDer<'_>>(option, file, "certificate")? {
        store.add(certificate).map_err(|error| invalid(option, &error))?;
    }
    Ok(store)
}

/// Checks less of a server's certificate than usual, for `sslmode=require` and
/// `sslmode=verify-ca`.
#[derive(Debug)]
struct Lenient {
    algorithms: WebPkiSupportedAlgorithms,
    /// Checks the authority of a certificate, for any name. With `None`, any peer that answers is
    /// taken for the server.
    authority: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(strict) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match strict.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        {
            // The name is checked last, so everything else is right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_or_no_certificate_is_named() {
        let refusal = |ca: &str| {
            let files = [("ca", Some(ca.into())), ("cert", None), ("key", None)];
            Tls::new(None, Trust::Name, files).unwrap_err().why
        };
        let why = refusal("/nowhere/ca.pem");
        assert!(why.contains("`ca`") && why.contains("/nowhere/ca.pem"), "{why}");
        let why = refusal("/dev/null");
        assert!(why.contains("no certificate"), "{why}");
    }
}
