//! The parts of a URL of servers: the login, hosts and ports, options, escapes, and passwords from
//! elsewhere.

use leasehold_core::InvalidInput;
use leasehold_core::text::{percent_decode, split_scheme};

use super::options::{Server, list};
use super::place::{Environment, Place, invalid};
use super::secret::{Login, PASSWORD_FILE, Password, Secret};

/// The environment variable with a password, so that no URL needs to contain it.
const PASSWORD: &str = "LEASEHOLD_PASSWORD";

/// A URL of servers.
#[derive(Debug)]
pub(crate) struct Url<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) login: Login,
    pub(crate) hosts: &'a str,
    /// What follows the first `/` after the hosts.
    pub(crate) path: &'a str,
    pub(crate) query: Query<'a>,
}

impl<'a> Url<'a> {
    /// Splits a URL. An error shows the example.
    pub(crate) fn read(url: &'a str, example: &str) -> Result<Self, InvalidInput> {
        let parts =
            split_scheme(url).and_then(|(scheme, rest)| Some((scheme, rest.strip_prefix("//")?)));
        let (scheme, rest) = parts.ok_or_else(|| {
            invalid(format!("the store URL has no `://` after its scheme: write {example}"))
        })?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        check_delimiters(authority, path, query)?;
        let (login, hosts) = split_login(authority)?;
        Ok(Self { scheme, login, hosts, path, query: Query::read(query)? })
    }
}

/// The error for a URL that is not of the store, whose URLs have these forms.
pub(crate) fn unknown(scheme: &str, forms: &str) -> InvalidInput {
    invalid(format!("the store URL begins with {scheme:?}: use {forms}"))
}

/// Reads the servers, each of which must occur once.
pub(crate) fn servers(hosts: &str, default_port: u16) -> Result<Vec<Server>, InvalidInput> {
    let mut servers = Vec::new();
    for text in hosts.split(',') {
        let server = server(text, default_port)?;
        if servers.contains(&server) {
            return Err(invalid(format!("the addresses have {server} twice")));
        }
        servers.push(server);
    }
    Ok(servers)
}

/// Reads a host and its port.
pub(crate) fn server(text: &str, default_port: u16) -> Result<Server, InvalidInput> {
    let unclosed = || invalid("the host in the store URL begins with `[` and has no `]`");
    let (host, rest) = match text.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').ok_or_else(unclosed)?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    if host.is_empty() {
        return Err(invalid("there is no host: write HOST[:PORT] after `://`"));
    }
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => Some(default_port),
        port => port.and_then(|port| port.parse().ok()).filter(|port| *port > 0),
    };
    // The message does not show the text: it may be a password whose `@` is missing.
    let no_port = "the port in the store URL is not 1 to 65535: write HOST:PORT, with \
                   USER:PASSWORD@ before the host if it has users";
    let mut host = decode("host", host)?;
    if !host.starts_with('/') {
        host.make_ascii_lowercase();
    }
    Ok(Server { host, port: port.ok_or_else(|| invalid(no_port))? })
}

/// Decodes `%2F` and other escapes.
pub(crate) fn decode(part: &str, text: &str) -> Result<String, InvalidInput> {
    let why =
        || format!("the {part} in the store URL has a `%` without two hex digits, or no UTF-8");
    percent_decode(text).ok_or_else(|| invalid(why()))
}

/// Refuses a delimiter where none belongs. Such a delimiter is part of an unescaped password, and
/// no later message may show a piece of a password.
fn check_delimiters(authority: &str, path: &str, query: &str) -> Result<(), InvalidInput> {
    let strays = [authority, path, query].iter().any(|part| part.contains('#'))
        || [path, query].iter().any(|part| part.contains('@'))
        || authority.matches('@').count() > 1;
    let why = "the store URL has a `@` or `#` where none belongs: write `/` as %2F, `?` as %3F, \
               `#` as %23, `@` as %40, or give the password in LEASEHOLD_PASSWORD";
    if strays { Err(invalid(why)) } else { Ok(()) }
}

/// Splits the login from the hosts.
fn split_login(authority: &str) -> Result<(Login, &str), InvalidInput> {
    let Some((credentials, hosts)) = authority.split_once('@') else {
        return Ok((Login::default(), authority));
    };
    let (user, password) =
        credentials.split_once(':').map_or((credentials, None), |(a, b)| (a, Some(b)));
    let user = (!user.is_empty()).then(|| decode("user", user)).transpose()?.map(Secret::from);
    let password = password.map(|text| decode("password", text)).transpose()?.map(Password::from);
    Ok((Login { user, password }, hosts))
}

/// The options of a URL. A store takes each option that it has.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    given: Vec<(&'a str, String)>,
    /// All options of the store, in the order of the manual.
    names: Vec<&'static str>,
}

impl<'a> Query<'a> {
    fn read(text: &'a str) -> Result<Self, InvalidInput> {
        let mut given: Vec<(&str, String)> = Vec::new();
        for option in text.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| {
                // The message does not name the option: it may be a piece of a password with a `?`
                // in it.
                invalid("an option in the store URL has no value: write name=value")
            })?;
            if given.iter().any(|(seen, _)| *seen == name) {
                return Err(invalid(format!("the option `{name}` is in the store URL twice")));
            }
            given.push((name, decode("option", value)?));
        }
        Ok(Self { given, names: Vec::new() })
    }

    /// The value of an option, if the URL has it.
    pub(crate) fn take<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, InvalidInput>,
    ) -> Result<Option<T>, InvalidInput> {
        self.names.push(name);
        let at = self.given.iter().position(|(given, _)| *given == name);
        let value = at.map(|at| read(&self.given.remove(at).1)).transpose();
        value.map_err(|refusal| invalid(format!("`{name}` in the store URL: {refusal}")))
    }

    /// Refuses an option that the store does not have.
    pub(crate) fn end(self) -> Result<(), InvalidInput> {
        let Some((name, _)) = self.given.first() else { return Ok(()) };
        let known = list(&self.names, "and");
        Err(invalid(format!("the store URL has the unknown option {name:?}: there are {known}")))
    }
}

/// A valid URL as it may be shown: without its password, and without a user that has no password,
/// because such a user may be a password in the wrong place.
pub(crate) fn without_password(url: &str) -> Option<String> {
    // There is one `@` at most, and the login is before it.
    let Some((before, after)) = url.split_once('@') else { return Some(url.to_owned()) };
    let (scheme, login) = before.split_once("://")?;
    let user = login.split_once(':').map_or("", |(user, _)| user);
    let colon = if login.contains(':') { ":" } else { "" };
    Some(format!("{scheme}://{user}{colon}***@{after}"))
}

impl Place {
    /// The place that a valid URL names on these servers. `selection` says what selects the locks
    /// there.
    pub(crate) fn on_servers(url: &str, servers: &[Server], selection: &str) -> Self {
        let address = |Server { host, port }: &Server| match &**host {
            "localhost" | "::1" => format!("127.0.0.1:{port}"),
            host => format!("{host}:{port}"),
        };
        let mut addresses: Vec<_> = servers.iter().map(address).collect();
        addresses.sort();
        let has_hosts = !servers.iter().any(Server::is_socket);
        let remote = has_hosts.then(|| remote(url)).flatten();
        Self { id: format!("{addresses:?} {selection}"), remote }
    }
}

/// A valid URL without its password, and with those of its options that select the locks. A role
/// of PostgreSQL may select them, too.
fn remote(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (login, place) = place.split_once('@').unwrap_or(("", place));
    let role = login.split(':').next().filter(|_| scheme.starts_with("postgres"));
    let role = role.filter(|role| !role.is_empty()).map(|role| format!("{role}@"));
    let is_kept = |option: &&str| {
        ["layout=", "prefix=", "schema="].iter().any(|kept| option.starts_with(kept))
    };
    let options: Vec<_> = query.split('&').filter(is_kept).collect();
    let link = if options.is_empty() { "" } else { "?" };
    Some(format!("{scheme}://{}{place}{link}{}", role.unwrap_or_default(), options.join("&")))
}

/// The addresses of servers, separated by commas.
pub(crate) fn joined(servers: &[Server]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Takes a missing password from the environment.
pub(crate) fn complete(
    login: &mut Login,
    environment: Environment<'_>,
) -> Result<(), InvalidInput> {
    if login.password.is_none() {
        login.password = match environment(PASSWORD) {
            Some(password) => Some(password.into()),
            None => environment(PASSWORD_FILE).map(Password::from_file).transpose()?,
        };
    }
    Ok(())
}
