//! The highest token that a resource has seen, and the refusal of lower ones.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::name::LockName;
use crate::token::FencingToken;

/// The lease under which a step is done: its lock, and the token of its grant.
///
/// Tokens of different locks cannot be compared, so the name goes with the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The name of the lock.
    pub lock: LockName,
    /// The token of the grant.
    pub token: FencingToken,
}

impl Fence {
    /// The error for a step that was refused because the resource has seen `newest`.
    pub fn overtaken_by(&self, newest: FencingToken) -> Error {
        Error::Fenced { name: self.lock.clone(), token: self.token, newest }
    }
}

/// The highest token that was seen for each lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fences(pub BTreeMap<LockName, FencingToken>);

impl Fences {
    /// Installs the token, so that lower ones are refused from now on.
    ///
    /// The same token may come any number of times: one holder takes many steps.
    ///
    /// # Errors
    ///
    /// The higher token that has been seen; then nothing is changed.
    pub fn install(&mut self, fence: &Fence) -> Result<(), FencingToken> {
        let newest = self.0.entry(fence.lock.clone()).or_insert(fence.token);
        *newest = fence.token.max(*newest);
        if *newest == fence.token { Ok(()) } else { Err(*newest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(lock: &str, token: u64) -> Fence {
        let token = FencingToken::from_number(token).unwrap();
        Fence { lock: LockName::new(lock).unwrap(), token }
    }

    #[test]
    fn an_overtaken_holder_is_refused_and_the_newest_may_go_on() {
        let mut fences = Fences::default();
        assert_eq!(fences.install(&fence("a", 5)), Ok(()));
        assert_eq!(fences.install(&fence("a", 5)), Ok(()));
        assert_eq!(fences.install(&fence("a", 9)), Ok(()));
        assert_eq!(fences.install(&fence("a", 5)), Err(fence("a", 9).token));
        assert_eq!(fences.install(&fence("b", 1)), Ok(()), "another lock's tokens do not compare");
    }
}
