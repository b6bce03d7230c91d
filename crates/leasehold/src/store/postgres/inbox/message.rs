//! The channels of notifications, and what a message about a name looks like.

use leasehold_core::{ClientId, LockName};
use sha1_smol::Sha1;

/// The channel of a client.
pub(crate) fn inbox(client: ClientId) -> String {
    format!("lh_{client}")
}

/// The channel for messages about a name. Names may be longer than channels, so several names may
/// share a channel; the payload has the name.
pub(crate) fn news(schema: &str, name: &LockName) -> String {
    let hash = Sha1::from(format!("{schema}\n{}", name.as_str())).digest();
    format!("lh_n_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_no_longer_than_a_server_keeps() {
        let client = ClientId(u128::MAX);
        assert_eq!(inbox(client).len(), 35);
        let name = LockName::new("x".repeat(512)).unwrap();
        assert!(news("leasehold", &name).len() < 64);
        assert_ne!(news("leasehold", &name), news("other", &name));
    }
}
