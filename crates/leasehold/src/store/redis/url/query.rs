//! What follows the `?` of a store URL.

use std::time::Duration;

use leasehold_core::InvalidInput;
use leasehold_core::text::parse_duration;

use super::parts::decode;
use crate::store::redis::options::{
    LayoutName, QUARANTINE, RedisOptions, Replicas, Tls, TlsFiles, invalid, replicas,
};
use crate::store::retention;

/// The options with those of a URL.
pub(super) fn read(mut options: RedisOptions, query: &str) -> Result<RedisOptions, InvalidInput> {
    let mut seen = Vec::new();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').ok_or_else(|| {
            // Not named: it may be a piece of a password with a `?` in it.
            invalid("an option in the store URL has no value: write name=value")
        })?;
        if seen.contains(&name) {
            return Err(invalid(format!("the option `{name}` is in the store URL twice")));
        }
        seen.push(name);
        options = with(options, name, decode("option", value)?)?;
    }
    Ok(options)
}

fn with(
    mut options: RedisOptions,
    name: &str,
    value: String,
) -> Result<RedisOptions, InvalidInput> {
    Ok(match name {
        "ca" => {
            files(&mut options, name)?.authority = Some(value.into());
            options
        }
        "cert" => {
            files(&mut options, name)?.certificate = Some(value.into());
            options
        }
        "connect_timeout" => options.connect_timeout(span(name, &value)?),
        "fenced" => options.fenced(switch(name, &value)?),
        "insecure" => {
            files(&mut options, name)?.is_insecure = switch(name, &value)?;
            options
        }
        "key" => {
            files(&mut options, name)?.key = Some(value.into());
            options
        }
        "layout" => options.layout(layout(&value)?),
        "offset" => options.offset(span(name, &value)?),
        "prefix" => options.prefix(value),
        "quarantine" => options.quarantine(match value.as_str() {
            "off" => None,
            "on" => Some(QUARANTINE),
            text => Some(span(name, text)?),
        }),
        "replicas" => options.replicas(match value.as_str() {
            "all" => Replicas::All,
            "none" => Replicas::None,
            number => Replicas::AtLeast(number.parse().map_err(|_| replicas(number))?),
        }),
        "retention" => options.retention(retention::parse(&value)?),
        "sentinel_user" => options.sentinel_user(value),
        "timeout" => options.timeout(span(name, &value)?),
        "waitaof" => options.waitaof(switch(name, &value)?),
        _ => {
            return Err(invalid(format!(
                "the store URL has the unknown option {name:?}: there are ca, cert, \
                 connect_timeout, fenced, insecure, key, layout, offset, prefix, \
                 quarantine, replicas, retention, sentinel_user, timeout and waitaof"
            )));
        }
    })
}

fn files<'a>(options: &'a mut RedisOptions, name: &str) -> Result<&'a mut TlsFiles, InvalidInput> {
    match &mut options.0.tls {
        Some(Tls::Files(files)) => Ok(files),
        Some(Tls::Config(_)) | None => {
            Err(invalid(format!("`{name}` in the store URL is for TLS: begin it with rediss://")))
        }
    }
}

fn switch(name: &str, value: &str) -> Result<bool, InvalidInput> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(invalid(format!("`{name}` in the store URL is `on` or `off`"))),
    }
}

fn span(name: &str, text: &str) -> Result<Duration, InvalidInput> {
    parse_duration(text).map_err(|refusal| invalid(format!("`{name}` in the store URL: {refusal}")))
}

fn layout(value: &str) -> Result<LayoutName, InvalidInput> {
    match value {
        "native" => Ok(LayoutName::Native),
        "plain" => Ok(LayoutName::Plain),
        "redisson" => Ok(LayoutName::Redisson),
        _ => Err(invalid(format!(
            "the layout {value:?} in the store URL is not known: there are native, plain and \
             redisson"
        ))),
    }
}
