//! The arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::shared::StoreArgs;

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen. An address that other machines can reach needs --token-file
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9740",
        value_parser = listen
    )]
    pub(crate) listen: SocketAddr,
    /// Lets users with the token revoke leases
    #[arg(long, requires = "token_file")]
    pub(crate) allow_revoke: bool,
    /// The file with the token, 16 characters or more, which people type and programs send as
    /// `Authorization: Bearer TOKEN`
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Answers by TLS only, with the certificates in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the first certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A name of this machine that requests may be addressed to, besides its host name, localhost
    /// and addresses
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Lets metrics show the locks whose names begin with this, up to 1000 of them
    #[arg(long, value_name = "PREFIX", num_args = 1..)]
    pub(crate) metrics_names: Vec<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "it is no address with a port: write 127.0.0.1:9740 for this machine alone, or \
         0.0.0.0:9740 for others, too"
            .to_owned()
    })
}
