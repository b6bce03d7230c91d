//! The handle that `take` prints and `give` needs: it names the lease, its holder, and the store.

use data_encoding::BASE64URL_NOPAD;
use leasehold::admin::{ClientId, Status};
use leasehold::{FencingToken, Guard, LockName};
use serde::{Deserialize, Serialize};

use crate::user::{User, host};

/// The beginning of every handle. It shows whether a text is a truncated handle, or was never a
/// handle.
const MARK: &str = "lh1.";

/// The handle of a lease that was taken. It has no secret, and does not contain the password of the
/// store. To give the lease back, a process needs the rights of the user, or rights to the store. A
/// handle may be forged. So it contains no path of a socket, and `give` takes only the id of the
/// client from it to find a process on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Handle {
    /// Where the holder process runs.
    pub(crate) host: String,
    /// The user of the holder process.
    pub(crate) user: String,
    /// The URL of the store, without its password.
    pub(crate) store: String,
    /// The client that is the holder in the store.
    pub(crate) client: ClientId,
    /// The names that are held, at least one.
    pub(crate) names: Vec<HeldName>,
}

/// One name that is held, and the token of its grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldName {
    pub(crate) name: LockName,
    pub(crate) token: FencingToken,
}

impl HeldName {
    /// The names that a guard holds.
    pub(crate) fn all(guard: &Guard) -> Vec<Self> {
        let held = |(name, token): (&LockName, _)| Self { name: name.clone(), token };
        guard.tokens().map(held).collect()
    }
}

impl Handle {
    /// The handle as `take` prints it: one word.
    pub(crate) fn encode(&self) -> Result<String, String> {
        let json = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        Ok(format!("{MARK}{}", BASE64URL_NOPAD.encode(&json)))
    }

    /// Reads a handle.
    ///
    /// # Errors
    ///
    /// If the text is no handle. The error says what is wrong.
    pub(crate) fn decode(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let Some(encoded) = text.strip_prefix(MARK) else {
            return Err(format!(
                "it is no handle: give the text that `leasehold take` printed, which begins with \
                 {MARK}"
            ));
        };
        let damaged = "it is a damaged handle: give all that `leasehold take` printed, unchanged";
        let json = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| damaged)?;
        let handle: Self = serde_json::from_slice(&json).map_err(|_| damaged)?;
        if handle.names.is_empty() { Err(damaged.to_owned()) } else { Ok(handle) }
    }

    /// Whether this user took the lease, on this machine.
    pub(crate) fn is_from_here(&self) -> bool {
        self.host == host() && self.user == User::of_this_process().name
    }

    /// The names of the handle, as a text.
    pub(crate) fn shown(&self) -> String {
        self.names.iter().map(|held| held.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// The tokens of the names, as a text.
    pub(crate) fn tokens(&self) -> String {
        self.names.iter().map(|held| held.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Whether the name is held by exactly this lease.
    pub(crate) fn holds(&self, token: FencingToken, status: &Status) -> bool {
        let mut holders = status.holders.iter();
        holders.any(|holder| {
            holder.id.client == self.client && holder.token.is_none_or(|it| it == token)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Handle {
        let held = HeldName {
            name: LockName::new("deploy freeze/ü").unwrap(),
            token: FencingToken::from_number(7).unwrap(),
        };
        Handle {
            host: "vm".to_owned(),
            user: "ada".to_owned(),
            store: "redis://app:***@db:6379/0".to_owned(),
            client: ClientId(u128::MAX),
            names: vec![held],
        }
    }

    #[test]
    fn a_handle_survives_its_text_which_is_one_word_for_a_shell() {
        let text = handle().encode().unwrap();
        assert_eq!(Handle::decode(&format!("{text}\n")), Ok(handle()));
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)), "{text}");
    }

    #[test]
    fn what_is_no_handle_and_what_was_cut_are_told_apart() {
        let text = handle().encode().unwrap();
        for wrong in ["", "deploy", "17950221"] {
            assert!(Handle::decode(wrong).unwrap_err().contains("no handle"), "{wrong}");
        }
        let mut forged = serde_json::to_value(handle()).unwrap();
        forged["socket"] = "/run/a".into();
        let forged = format!("{MARK}{}", BASE64URL_NOPAD.encode(forged.to_string().as_bytes()));
        assert!(Handle::decode(&forged).unwrap_err().contains("damaged"), "it names a path");
        for damaged in [&text[..text.len() - 3], "lh1.", "lh1.e30", "lh1.\u{fc}"] {
            assert!(Handle::decode(damaged).unwrap_err().contains("damaged"), "{damaged}");
        }
    }
}
