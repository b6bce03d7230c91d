//! Certificates made for one test.

use std::fs;
use std::io::{self, Error};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};

/// Files with an authority, a server certificate for `localhost` and 127.0.0.1, and a client
/// certificate, both signed by that authority. PEM.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority's certificate.
    pub authority: PathBuf,
    /// The client's certificate.
    pub client: PathBuf,
    /// The client's key.
    pub client_key: PathBuf,
    /// The server's certificate.
    pub server: PathBuf,
    /// The server's key.
    pub server_key: PathBuf,
}

impl Certificates {
    /// Makes new certificates, and writes them to a directory.
    pub fn write(directory: &Path) -> io::Result<Self> {
        let authority = authority().map_err(Error::other)?;
        let files = Self {
            authority: directory.join("authority.pem"),
            client: directory.join("client.pem"),
            client_key: directory.join("client.key"),
            server: directory.join("server.pem"),
            server_key: directory.join("server.key"),
        };
        fs::write(&files.authority, authority.pem())?;
        write_signed(&authority, "server", &files.server, &files.server_key)?;
        write_signed(&authority, "client", &files.client, &files.client_key)?;
        Ok(files)
    }
}

fn named(name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = named("authority")?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn write_signed(
    authority: &CertifiedIssuer<'static, KeyPair>,
    name: &str,
    certificate: &Path,
    key: &Path,
) -> io::Result<()> {
    let pair = KeyPair::generate().map_err(Error::other)?;
    let signed = named(name).and_then(|params| params.signed_by(&pair, authority));
    fs::write(certificate, signed.map_err(Error::other)?.pem())?;
    fs::write(key, pair.serialize_pem())
}
