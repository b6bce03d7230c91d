//! Frames of the Redis protocol, versions 2 and 3: where one ends, and what it is.

use std::io::{self, Error, ErrorKind};
use std::str;

use leasehold::store::redis_wire::Script;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The commands whose answers come as pushes, in version 3.
const ANSWERED_BY_PUSHES: [&[u8]; 6] =
    [b"PSUBSCRIBE", b"PUNSUBSCRIBE", b"SSUBSCRIBE", b"SUBSCRIBE", b"SUNSUBSCRIBE", b"UNSUBSCRIBE"];

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    from: R,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from, buffer: Vec::new() }
    }

    /// The next frame; none when the stream has ended.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(length) = length(&self.buffer)? {
                let rest = self.buffer.split_off(length);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// The commands of a request that begins with this one: a transaction is one request.
pub(crate) async fn request<R: AsyncRead + Unpin>(
    first: Vec<u8>,
    frames: &mut Frames<R>,
) -> io::Result<Vec<Vec<u8>>> {
    let is = |frame: &[u8], name: &[u8]| {
        word(frame, 0).is_some_and(|word| word.eq_ignore_ascii_case(name))
    };
    let is_transaction = is(&first, b"MULTI");
    let mut parts = vec![first];
    while is_transaction && !is(&parts[parts.len() - 1], b"EXEC") {
        parts.push(frames.next().await?.ok_or(ErrorKind::UnexpectedEof)?);
    }
    Ok(parts)
}

/// How long the first frame is; none if it has not arrived as a whole.
pub(crate) fn length(bytes: &[u8]) -> io::Result<Option<usize>> {
    let (mut at, mut values) = (0, 1);
    while values > 0 {
        let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else { return Ok(None) };
        let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
        let count = || number(&rest[1..end]);
        values -= 1;
        at += end + 2;
        match rest[0] {
            b'$' | b'!' | b'=' => at += count()?.map_or(0, |length| length + 2),
            b'*' | b'~' | b'>' => values += count()?.unwrap_or(0),
            b'%' => values += 2 * count()?.unwrap_or(0),
            b'|' => values += 2 * count()?.unwrap_or(0) + 1,
            b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => {}
            other => return Err(Error::new(ErrorKind::InvalidData, format!("type {other:#x}"))),
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

/// A length; none for the -1 of "nothing".
fn number(digits: &[u8]) -> io::Result<Option<usize>> {
    let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i64>().ok());
    let number = number.ok_or_else(|| Error::new(ErrorKind::InvalidData, "no length"))?;
    Ok(usize::try_from(number).ok())
}

/// Whether the server says this without having been asked.
pub(crate) fn is_push(frame: &[u8]) -> bool {
    frame.first() == Some(&b'>')
}

/// Whether a push is a published message.
pub(crate) fn is_message(frame: &[u8]) -> bool {
    is_push(frame) && word(frame, 0).is_some_and(|kind| kind.ends_with(b"message"))
}

/// Whether a request is answered by a reply, rather than by a push.
pub(crate) fn has_reply(request: &[u8]) -> bool {
    let name = word(request, 0).unwrap_or_default().to_ascii_uppercase();
    !ANSWERED_BY_PUSHES.contains(&name.as_slice())
}

/// The script that a request calls.
pub(crate) fn script(request: &[u8]) -> Option<Script> {
    if !word(request, 0)?.eq_ignore_ascii_case(b"EVALSHA") {
        return None;
    }
    let sha1 = word(request, 1)?;
    Script::ALL.into_iter().find(|script| script.sha1().as_bytes() == sha1)
}

/// One of the words that a command or a push is made of, if it is no text of several lines.
pub(crate) fn word(frame: &[u8], index: usize) -> Option<&[u8]> {
    let mut lines = frame.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    // Each word comes after its length, and the first length comes after the number of words.
    lines.nth(2 * index + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_ends_where_its_last_value_ends() {
        let frames: [&[u8]; 8] = [
            b"+OK\r\n",
            b"$3\r\na\r\n\r\n",
            b"$-1\r\n",
            b"*2\r\n:1\r\n*1\r\n$0\r\n\r\n",
            b"%1\r\n+a\r\n*0\r\n",
            b"|1\r\n+a\r\n+b\r\n:1\r\n",
            b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\np\r\n",
            b"*-1\r\n",
        ];
        for frame in frames {
            assert_eq!(length(&[frame, b"+more\r\n"].concat()).unwrap(), Some(frame.len()));
            for part in 0..frame.len() {
                assert_eq!(length(&frame[..part]).unwrap(), None, "{frame:?} cut at {part}");
            }
        }
        assert!(length(b"no frame\r\n").is_err());
        assert!(length(b"$x\r\n").is_err());
    }

    #[test]
    fn requests_and_pushes_are_told_by_their_first_words() {
        let take = Script::Take.sha1();
        let request = format!("*3\r\n$7\r\nevalsha\r\n$40\r\n{take}\r\n$1\r\n0\r\n");
        assert_eq!(script(request.as_bytes()), Some(Script::Take));
        assert!(has_reply(request.as_bytes()));
        let subscribe = b"*2\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n";
        assert!(script(subscribe).is_none() && !has_reply(subscribe));
        assert!(is_message(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\np\r\n"));
        assert!(!is_message(b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"));
        assert!(!is_message(b"*1\r\n$7\r\nmessage\r\n"));
    }
}
