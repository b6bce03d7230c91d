//! The servers of a connection that a program has already configured for redis-rs.

use leasehold_core::InvalidInput;
use redis::{Client, ConnectionAddr, ConnectionInfo};

use super::{Address, RedisOptions, Servers, invalid};

/// The server, database, user and password of a `redis::ConnectionInfo` of redis-rs 1.x. The store
/// opens its own connections to that server. TLS with certificates is refused, because redis-rs
/// does not show the certificates: give them by [`ca`](RedisOptions::ca) or
/// [`tls_config`](RedisOptions::tls_config).
impl TryFrom<&ConnectionInfo> for RedisOptions {
    type Error = InvalidInput;

    fn try_from(info: &ConnectionInfo) -> Result<Self, InvalidInput> {
        let tcp = |host: &String, port| Address::Tcp { host: host.clone(), port };
        let (address, insecure) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (tcp(host, *port), None),
            ConnectionAddr::TcpTls { host, port, insecure, tls_params: None } => {
                (tcp(host, *port), Some(*insecure))
            }
            ConnectionAddr::Unix(path) => (Address::Unix(path.clone()), None),
            _ => {
                let why = "the certificates of a redis-rs connection cannot be read: make the \
                           options by `RedisOptions::standalone`, with `ca` or `tls_config`";
                return Err(invalid(why.to_owned()));
            }
        };
        let mut options = Self::of(Servers::Standalone(address));
        if let Some(insecure) = insecure {
            options = options.tls().insecure(insecure);
        }
        let redis = info.redis_settings();
        options = options.database(u32::try_from(redis.db()).map_err(|_| {
            invalid(format!("the database {} of the connection is no number from 0 on", redis.db()))
        })?);
        if let Some(user) = redis.username() {
            options = options.user(user);
        }
        Ok(match redis.password() {
            Some(password) => options.password(password),
            None => options,
        })
    }
}

/// The same as from the client's `redis::ConnectionInfo`.
impl TryFrom<&Client> for RedisOptions {
    type Error = InvalidInput;

    fn try_from(client: &Client) -> Result<Self, InvalidInput> {
        client.get_connection_info().try_into()
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo as _;

    use super::super::Tls;
    use super::*;

    #[test]
    fn a_client_of_redis_rs_stands_for_the_same_server_database_and_login_as_its_url() {
        for url in ["redis://h:7001/3", "redis://app:pw@h:7001/", "redis+unix:///run/redis.sock"] {
            let own = RedisOptions::try_from(&Client::open(url).unwrap()).unwrap().0;
            let read = RedisOptions::from_url(url).unwrap().0;
            assert_eq!(own.servers, read.servers, "{url}");
            assert_eq!(own.database, read.database, "{url}");
            assert_eq!(own.login.user(), read.login.user(), "{url}");
            assert_eq!(own.login.password.is_some(), read.login.password.is_some(), "{url}");
        }
    }

    #[test]
    fn tls_is_kept_and_a_database_below_zero_is_refused() {
        let info = "redis://h".into_connection_info().unwrap();
        let (host, port) = ("h".to_owned(), 6380);
        let address = ConnectionAddr::TcpTls { host, port, insecure: true, tls_params: None };
        let options = RedisOptions::try_from(&info.clone().set_addr(address)).unwrap().0;
        assert!(matches!(options.tls, Tls::On) && options.insecure, "{options:?}");
        let settings = info.redis_settings().clone().set_db(-1);
        let refused = RedisOptions::try_from(&info.set_redis_settings(settings)).unwrap_err();
        assert!(refused.why.contains("-1"), "{refused:?}");
    }
}
