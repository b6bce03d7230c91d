//! Parts of a store URL: hosts and ports, what is escaped.

use leasehold_core::InvalidInput;
use leasehold_core::text::percent_decode;

use crate::store::redis::options::{Address, invalid, no_host};

pub(super) fn hosts(text: &str, default_port: u16) -> Result<Vec<Address>, InvalidInput> {
    text.split(',').map(|part| host(part, default_port)).collect()
}

pub(super) fn host(text: &str, default_port: u16) -> Result<Address, InvalidInput> {
    let unclosed = || invalid("the host in the store URL begins with `[` and has no `]`");
    let (host, rest) = if let Some(bracketed) = text.strip_prefix('[') {
        bracketed.split_once(']').ok_or_else(unclosed)?
    } else {
        text.split_at(text.find(':').unwrap_or(text.len()))
    };
    if host.is_empty() {
        return Err(no_host());
    }
    let port = match rest.strip_prefix(':').map(str::parse) {
        None if rest.is_empty() => default_port,
        Some(Ok(port)) if port > 0 => port,
        // It may be a password whose `@` is missing.
        None | Some(_) => {
            return Err(invalid(
                "the port in the store URL is not 1 to 65535: write redis://HOST:PORT, with \
                 USER:PASSWORD@ before the host if it has users",
            ));
        }
    };
    Ok(Address::Tcp { host: decode("host", host)?, port })
}

/// Undoes `%2F` and the like.
pub(super) fn decode(part: &str, text: &str) -> Result<String, InvalidInput> {
    percent_decode(text).ok_or_else(|| {
        invalid(format!(
            "the {part} in the store URL has a `%` without two hex digits, or no UTF-8"
        ))
    })
}
