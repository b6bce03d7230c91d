//! One call of a script, as planned by a layout: the request, the decoder of its reply, and the
//! effect of the reply. This module does not depend on what any script does.

use std::fmt;
use std::iter::from_fn;
use std::sync::Arc;

use leasehold_core::StoreError;
use redis::{Cmd, Value};
use sha1_smol::Sha1;

use super::resp;

/// The text of a script, as sent to a server.
#[derive(Debug)]
pub struct ScriptText {
    /// The text for SCRIPT LOAD.
    pub source: String,
    /// The SHA-1 for EVALSHA: 40 hex digits.
    pub sha1: String,
    /// Whether a replica would run the script, too, and answer with old data.
    pub is_read_only: bool,
    /// If calls for one name each may be joined into one: what they do not share. The joined call
    /// has the own keys and arguments of all, and then the shared ones. Its reply has a letter for
    /// each.
    pub own: Option<Own>,
    /// Whether a call sets its first key in front of the script, unless there is that key: both are
    /// one transaction. The script has the call's second key, and the number of calls.
    pub sets: bool,
    /// The same script, but it first checks whether the server may have forgotten something. Its
    /// keys end with the boot record, and its arguments with the server's run id and the span of a
    /// quarantine.
    pub guarded: Option<Box<Self>>,
}

impl ScriptText {
    /// A script with its flags in the first line.
    pub(crate) fn new(source: String) -> Self {
        let sha1 = Sha1::from(&source).digest().to_string();
        let is_read_only = source.starts_with("#!lua flags=no-writes\n");
        Self { source, sha1, is_read_only, own: None, sets: false, guarded: None }
    }
}

/// What a call for one name does not share with others, beside its first key.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// The number of the name's own arguments, which come first.
    pub args: usize,
    /// The number of all arguments of a call for one name.
    pub of: usize,
}

/// The request for a call of a script.
#[derive(Debug)]
pub struct Request {
    /// The script to call.
    pub script: &'static ScriptText,
    /// The keys and then the other arguments, encoded as they travel.
    encoded: Vec<u8>,
    parts: [Part; 2],
    /// The part that is written now.
    at: usize,
}

/// The keys of a request, or its other arguments: their number, where those end that a call does
/// not share, and where all end.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    count: usize,
    own: usize,
    end: usize,
}

/// The keys of a request, or its other arguments.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    pub(crate) count: usize,
    /// Those that a call does not share, encoded.
    pub(crate) own: &'a [u8],
    /// The others, encoded.
    pub(crate) shared: &'a [u8],
}

impl<'a> Words<'a> {
    /// The words as they are.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let words = |mut rest| {
            from_fn(move || {
                let (word, after) = resp::word(rest)?;
                rest = after;
                Some(word)
            })
        };
        words(self.own).chain(words(self.shared))
    }

    /// Copies of the words.
    pub fn to_vec(self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }
}

impl Request {
    /// The request for a call without any keys yet.
    pub(crate) fn new(script: &'static ScriptText) -> Self {
        // Room for most requests.
        Self { script, encoded: Vec::with_capacity(256), parts: [Part::default(); 2], at: 0 }
    }

    /// The same request, with these keys and arguments.
    pub(crate) fn with(
        mut self,
        keys: impl IntoIterator<Item: AsRef<[u8]>>,
        args: impl IntoIterator<Item: AsRef<[u8]>>,
    ) -> Self {
        self.extend(keys);
        self.end_keys();
        self.extend(args);
        self
    }

    /// Ends the keys: what is added next is an argument.
    pub(crate) fn end_keys(&mut self) {
        let end = self.encoded.len();
        (self.at, self.parts[1]) = (1, Part { count: 0, own: end, end });
    }

    /// Adds a word.
    pub(crate) fn push(&mut self, word: &[u8]) {
        resp::write_word(&mut self.encoded, word);
        self.added();
    }

    /// Adds words.
    pub(crate) fn extend(&mut self, words: impl IntoIterator<Item: AsRef<[u8]>>) {
        words.into_iter().for_each(|word| self.push(word.as_ref()));
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Adds a word that `write` writes, and returns it.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Self) -> fmt::Result) -> &[u8] {
        // Most words have a length of two digits.
        self.encoded.extend_from_slice(b"$00\r\n");
        let start = self.encoded.len();
        let _ = write(self); // all of it is taken
        let length = self.encoded.len() - start;
        let (mut buffer, digits) = (itoa::Buffer::new(), start - 4..start - 2);
        match buffer.format(length).as_bytes() {
            two @ [_, _] => self.encoded[digits].copy_from_slice(two),
            other => drop(self.encoded.splice(digits, other.iter().copied())),
        }
        self.encoded.extend_from_slice(b"\r\n");
        self.added();
        let end = self.encoded.len() - 2;
        &self.encoded[end - length..end]
    }

    fn added(&mut self) {
        let own_count = self.script.own.map_or(0, |own| [1, own.args][self.at]);
        let part = &mut self.parts[self.at];
        (part.count, part.end) = (part.count + 1, self.encoded.len());
        if part.count <= own_count {
            part.own = part.end;
        }
    }

    /// The keys of the script. In a cluster all of them are in one slot.
    pub fn keys(&self) -> Words<'_> {
        self.words(0, 0)
    }

    /// The other arguments of the script.
    pub fn args(&self) -> Words<'_> {
        self.words(1, self.parts[0].end)
    }

    fn words(&self, at: usize, from: usize) -> Words<'_> {
        let Part { count, own, end } = self.parts[at];
        Words { count, own: &self.encoded[from..own], shared: &self.encoded[own..end] }
    }

    /// The command that makes the call.
    pub(crate) fn command(&self) -> Cmd {
        self.and(self.script, &[], &[])
    }

    /// The command that sets the first key, if the script does that.
    pub(crate) fn set(&self) -> Option<Cmd> {
        let key = self.keys().iter().next().filter(|_| self.script.sets)?;
        let mut set = redis::cmd("SET");
        set.arg(key).arg(self.args().to_vec());
        Some(set)
    }

    /// The command that calls a script with more keys and arguments behind those of this call.
    pub(crate) fn and(&self, script: &ScriptText, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&script.sha1).arg(self.keys().count + keys.len());
        command.arg(self.keys().to_vec()).arg(keys).arg(self.args().to_vec()).arg(args);
        command
    }
}

impl fmt::Write for Request {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.encoded.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// What a reply may give its caller. From this, a server that must not grant anything yet, such as
/// one that was restarted, knows which replies to hold back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A lease that nobody held, or that another holder has handed out.
    Grant,
    /// A lease that was granted while its caller waited.
    HandOver,
    /// A lease that the server has forgotten.
    Reclaim,
    /// More time for a lease.
    Renewal,
}

impl Effect {
    /// Whether the effect gives a client a lease that it did not have.
    pub(crate) const fn is_new(self) -> bool {
        matches!(self, Self::Grant | Self::HandOver)
    }
}

/// One call of a script, whose reply is read as an `A`.
#[derive(Clone, Debug)]
pub struct Call<A> {
    /// The request, which a bundle may share.
    pub request: Arc<Request>,
    /// Reads the reply.
    decode: fn(Value) -> Result<A, StoreError>,
    /// The effect that the reply may have, if any.
    pub(crate) effect: Option<Effect>,
    /// Whether a reply has that effect.
    pub(crate) is_granted: fn(&A) -> bool,
}

impl<A> Call<A> {
    /// A call whose reply has no effect.
    pub(crate) fn new(request: Request, decode: fn(Value) -> Result<A, StoreError>) -> Self {
        Self { request: Arc::new(request), decode, effect: None, is_granted: |_| false }
    }

    /// The same call, whose reply has this effect if it `is_granted`.
    pub(crate) fn with_effect(self, effect: Option<Effect>, is_granted: fn(&A) -> bool) -> Self {
        Self { effect, is_granted, ..self }
    }

    /// Reads the reply to this call.
    ///
    /// # Errors
    ///
    /// If the reply is not from one of our scripts, or reports a damaged record: the error names
    /// the key.
    pub fn answer(&self, reply: Value) -> Result<A, StoreError> {
        (self.decode)(reply).map_err(|error| {
            let key = self.request.keys().iter().next().map(String::from_utf8_lossy);
            let text = format!("{}: {error}", key.unwrap_or_default());
            let named = StoreError::new(error.kind(), text);
            if error.may_have_executed() { named.maybe_executed() } else { named }
        })
    }
}
