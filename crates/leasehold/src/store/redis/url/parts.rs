//! Hosts of a store URL.

use leasehold_core::InvalidInput;

use crate::store::redis::options::Address;
use crate::store::url_parts;

pub(super) fn hosts(text: &str, default_port: u16) -> Result<Vec<Address>, InvalidInput> {
    text.split(',').map(|part| host(part, default_port)).collect()
}

pub(super) fn host(text: &str, default_port: u16) -> Result<Address, InvalidInput> {
    let (host, port) = url_parts::host("redis", text, default_port)?;
    Ok(Address::Tcp { host, port })
}
