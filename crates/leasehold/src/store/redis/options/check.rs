//! Refuses options that are out of range, or that exclude each other: both for URLs and for options
//! that a program sets.

use leasehold_core::InvalidInput;

use super::servers::{Address, Servers};
use super::table::Settings;
use super::values::{LayoutName, Replicas, Tls, invalid, replicas};
use crate::store::url_parts::no_host;

/// The longest prefix: 64 bytes, because every key has it.
const MAX_PREFIX_BYTES: usize = 64;

/// The largest number of replicas that `replicas=` can ask for: more than anybody has.
const MAX_REPLICAS: u32 = 100;

impl Settings {
    /// Refuses options with which no store can be opened.
    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        self.check_values()?;
        self.check_logins()?;
        self.check_layout()?;
        self.check_quarantine()
    }

    /// Refuses values that are out of range or exclude each other.
    pub(crate) fn check_values(&self) -> Result<(), InvalidInput> {
        self.check_servers()?;
        self.check_spans()?;
        if let Replicas::AtLeast(count) = self.replicas
            && !(1..=MAX_REPLICAS).contains(&count)
        {
            return Err(replicas(&count.to_string()));
        }
        let prefix = self.prefix();
        if prefix.len() > MAX_PREFIX_BYTES || prefix.chars().any(char::is_control) {
            let why =
                format!("`prefix` has more than {MAX_PREFIX_BYTES} bytes or a control character");
            return Err(invalid(why));
        }
        if self.database != 0 && matches!(self.servers, Servers::Cluster(_)) {
            return Err(invalid("a cluster has no databases: leave the number out"));
        }
        if self.fenced && self.layout != LayoutName::Redisson {
            return Err(invalid("`fenced` is for layout=redisson"));
        }
        self.check_tls()
    }

    /// Refuses a user without a password.
    pub(crate) fn check_logins(&self) -> Result<(), InvalidInput> {
        if self.login.user.is_some() && self.login.password.is_none() {
            // The user in a URL may really be a password whose `:` was forgotten, so the message
            // does not show it.
            return Err(invalid(
                "there is a user and no password: write USER:PASSWORD@ or :PASSWORD@ in the store \
                 URL, or set LEASEHOLD_PASSWORD or LEASEHOLD_PASSWORD_FILE",
            ));
        }
        if self.sentinel_user.is_some() && self.sentinel_password.is_none() {
            return Err(invalid(
                "there is a `sentinel_user` and no password for sentinels: set \
                 LEASEHOLD_SENTINEL_PASSWORD",
            ));
        }
        Ok(())
    }

    fn check_servers(&self) -> Result<(), InvalidInput> {
        let addresses = self.servers.addresses();
        for (index, address) in addresses.iter().enumerate() {
            check_address(address)?;
            if addresses[..index].contains(address) {
                return Err(invalid(format!("the addresses have {address} twice")));
            }
        }
        if addresses.is_empty() {
            return Err(no_host("redis"));
        }
        match &self.servers {
            Servers::Sentinel { service, .. } if service.is_empty() => Err(invalid(
                "there are sentinels and no service: write redis+sentinel://HOST:PORT,…/SERVICE, \
                 with the name that the sentinels monitor",
            )),
            Servers::Sentinel { .. } => Ok(()),
            Servers::Cluster(_) | Servers::Quorum(_) | Servers::Standalone(_) => {
                if self.sentinel_user.is_none() && self.sentinel_password.is_none() {
                    return Ok(());
                }
                Err(invalid(
                    "`sentinel_user` and the password beside it are for sentinels: begin the \
                     store URL with redis+sentinel://",
                ))
            }
        }
    }

    fn check_tls(&self) -> Result<(), InvalidInput> {
        let given = [
            ("ca", self.ca.is_some()),
            ("cert", self.cert.is_some()),
            ("insecure", self.insecure),
            ("key", self.key.is_some()),
        ];
        let given = given.iter().find(|(_, is_given)| *is_given);
        match (&self.tls, given) {
            (Tls::Off, Some((name, _))) => Err(invalid(format!(
                "`{name}` in the store URL is for TLS: begin it with rediss://"
            ))),
            (Tls::Config(_), Some((name, _))) => Err(invalid(format!(
                "`{name}` is a part of the TLS configuration that the program gives: set it there"
            ))),
            (Tls::Config(_) | Tls::On, _)
                if matches!(self.servers, Servers::Standalone(Address::Unix(_))) =>
            {
                Err(invalid("a unix socket has no TLS: leave it out"))
            }
            _ if self.cert.is_some() != self.key.is_some() => {
                Err(invalid("`cert` and `key` go together: give both"))
            }
            _ if self.insecure && self.ca.is_some() => Err(invalid(
                "`insecure` trusts any server, so `ca` has no effect: leave one of them out",
            )),
            _ => Ok(()),
        }
    }

    fn check_layout(&self) -> Result<(), InvalidInput> {
        if matches!(self.servers, Servers::Quorum(_)) && self.layout == LayoutName::Redisson {
            return Err(invalid(
                "layout=redisson is for one server, sentinels or a cluster: Redisson has no lock \
                 on a quorum that excludes anybody for certain",
            ));
        }
        Ok(())
    }

    /// Refuses a quarantine for a store that cannot have one.
    fn check_quarantine(&self) -> Result<(), InvalidInput> {
        if self.quarantine().is_none() || self.may_be_in_quarantine() {
            return Ok(());
        }
        Err(invalid(
            "`quarantine` does not go with layout=plain or layout=redisson: programs in other \
             languages do not keep it",
        ))
    }
}

fn check_address(address: &Address) -> Result<(), InvalidInput> {
    match address {
        Address::Tcp { host, .. } if host.is_empty() => Err(no_host("redis")),
        Address::Tcp { port: 0, .. } => Err(invalid("the port is not 1 to 65535")),
        Address::Unix(path) if !path.is_absolute() => Err(no_socket()),
        Address::Tcp { .. } | Address::Unix(_) => Ok(()),
    }
}

pub(crate) fn no_socket() -> InvalidInput {
    invalid(
        "a socket needs its absolute path: write redis+unix:///run/redis.sock, with three slashes",
    )
}
