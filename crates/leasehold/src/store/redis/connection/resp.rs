//! Finds the end of a reply in the bytes that were read. redis-rs decodes the reply, except for the
//! strings of scripts, which are most replies.

use redis::{ErrorKind, RedisError, RedisResult, Value};

/// The longest reply: 16 MiB. The replies to our requests have some kB, and a step of a list some
/// hundred kB. A peer that sends more would fill the memory of this process.
pub(super) const LONGEST: usize = 16 << 20;

/// The most parts of a reply: 256 Ki. A decoded part takes up to 56 bytes, however short it was.
const MOST_PARTS: usize = 256 << 10;

/// The longest line: 64 KiB. A server's lines have a number or a sentence.
const LONGEST_LINE: usize = 64 << 10;

/// The progress of the search for the end of a reply, so that no part of it is read twice.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// The start of the next part.
    at: usize,
    /// The number of parts that are known to follow the part at `at`.
    more: usize,
    /// The number of all parts that are known.
    parts: usize,
}

impl Frame {
    /// The first reply and its length, once it is complete. The bytes must begin where the last
    /// reply ended, and may only grow between two calls.
    ///
    /// # Errors
    ///
    /// If the bytes are no reply of a server. The bytes after them are then no replies, either.
    pub(crate) fn reply(&mut self, bytes: &[u8]) -> RedisResult<Option<(Value, usize)>> {
        loop {
            let Some((line, after)) = line(bytes, self.at)? else { return Ok(None) };
            let (length, parts) = match line[0] {
                b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => (None, 0),
                b'$' | b'!' | b'=' => (count(line)?, 0),
                b'*' | b'~' | b'>' => (None, count(line)?.unwrap_or(0)),
                b'%' => (None, 2 * count(line)?.unwrap_or(0)),
                b'|' => (None, 2 * count(line)?.unwrap_or(0) + 1),
                _ => return Err(garbage()),
            };
            let after = length.map_or(after, |length| after + length + 2);
            if after > LONGEST || self.parts + parts > MOST_PARTS {
                return Err(garbage());
            }
            if bytes.len() < after {
                return Ok(None);
            }
            (self.at, self.more, self.parts) = (after, self.more + parts, self.parts + parts);
            if self.more == 0 {
                *self = Self::default();
                return Ok(Some((value(&bytes[..after])?, after)));
            }
            self.more -= 1;
        }
    }
}

/// The line that begins at `at`, with its kind and without its end, and the start of the next line.
fn line(bytes: &[u8], at: usize) -> RedisResult<Option<(&[u8], usize)>> {
    let rest = bytes.get(at..).unwrap_or_default();
    let rest = &rest[..rest.len().min(LONGEST_LINE)];
    let end = rest.iter().position(|byte| *byte == b'\n');
    match end.map(|end| (rest[..end].strip_suffix(b"\r"), end)) {
        Some((Some(line @ [_, ..]), end)) => Ok(Some((line, at + end + 1))),
        Some(_) => Err(garbage()),
        None if rest.len() == LONGEST_LINE => Err(garbage()),
        None => Ok(None),
    }
}

/// The number behind the kind of a line; `None` for a null.
fn count(line: &[u8]) -> RedisResult<Option<usize>> {
    if line[1..] == *b"-1" {
        return Ok(None);
    }
    let add = |count: usize, byte: &u8| {
        let digit = usize::from(byte.wrapping_sub(b'0'));
        (digit < 10 && count <= LONGEST).then_some(10 * count + digit)
    };
    let count = line[1..].iter().try_fold(0, add).filter(|count| *count <= LONGEST);
    count.filter(|_| line.len() > 1).map(Some).ok_or_else(garbage)
}

/// Decodes a complete reply.
fn value(reply: &[u8]) -> RedisResult<Value> {
    let simple = if reply[0] == b'*' { list(reply) } else { part(reply).map(|(part, _)| part) };
    simple.map_or_else(|| redis::parse_redis_value(reply), Ok)
}

/// The string or the number at the beginning, and the bytes after it.
fn part(bytes: &[u8]) -> Option<(Value, &[u8])> {
    if let Some((word, rest)) = word(bytes) {
        return Some((Value::BulkString(word.to_vec()), rest));
    }
    let (line, at) = line(bytes, 0).ok()??;
    let value = match line {
        b"+OK" => Value::Okay,
        b"_" => Value::Nil,
        [b'+', text @ ..] => Value::SimpleString(str::from_utf8(text).ok()?.to_owned()),
        [b':', number @ ..] => Value::Int(str::from_utf8(number).ok()?.parse().ok()?),
        _ => return None,
    };
    Some((value, &bytes[at..]))
}

/// A list that has only strings and numbers.
fn list(reply: &[u8]) -> Option<Value> {
    let (line, at) = line(reply, 0).ok()??;
    let count = count(line).ok()??;
    let (mut list, mut rest) = (Vec::with_capacity(count.min(reply.len())), &reply[at..]);
    for _ in 0..count {
        let (value, after) = part(rest)?;
        list.push(value);
        rest = after;
    }
    Some(Value::Array(list))
}

/// The word at the beginning, with its length in front of it, and the bytes after it.
pub(super) fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (line, at) = line(bytes, 0).ok()??;
    let length = Some(line).filter(|line| line[0] == b'$').and_then(|line| count(line).ok()?)?;
    let (word, rest) = bytes[at..].split_at_checked(length)?;
    Some((word, rest.strip_prefix(b"\r\n")?))
}

/// Writes a word with its length in front of it.
pub(super) fn write_word(output: &mut Vec<u8>, bytes: &[u8]) {
    // Most words have a length of one or two digits.
    let digit = |number: usize| b'0' + number as u8;
    match bytes.len() {
        one @ ..10 => output.extend([b'$', digit(one), b'\r', b'\n']),
        two @ ..100 => output.extend([b'$', digit(two / 10), digit(two % 10), b'\r', b'\n']),
        length => write_line(output, b'$', length),
    }
    output.extend_from_slice(bytes);
    output.extend_from_slice(b"\r\n");
}

/// Writes a line with a count.
pub(super) fn write_line(output: &mut Vec<u8>, kind: u8, count: usize) {
    output.push(kind);
    output.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    output.extend_from_slice(b"\r\n");
}

/// The error for a peer that speaks another protocol.
pub(super) fn garbage() -> RedisError {
    (ErrorKind::Parse, "this is no reply of a server").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All replies, read in pieces of `piece` bytes.
    fn replies(stream: &[u8], piece: usize) -> RedisResult<Vec<Value>> {
        let (mut frame, mut begin, mut found) = (Frame::default(), 0, Vec::new());
        for end in (0..stream.len()).step_by(piece).chain([stream.len()]) {
            while let Some((value, length)) = frame.reply(&stream[begin..end])? {
                found.push(value);
                begin += length;
            }
        }
        assert_eq!(begin, stream.len(), "all is read");
        Ok(found)
    }

    #[test]
    fn a_reply_is_what_redis_rs_reads_however_it_arrives() {
        let each: [&[u8]; 16] = [
            b"+OK\r\n",
            b"-NOSCRIPT No matching script.\r\n",
            b":-7\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"$0\r\n\r\n",
            b"$-1\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"*2\r\n$1\r\na\r\n$2\r\nbc\r\n",
            b"*3\r\n$1\r\na\r\n-OOM full\r\n*1\r\n:1\r\n",
            b"%1\r\n+server\r\n$5\r\nredis\r\n",
            b"|1\r\n+ttl\r\n:1\r\n$1\r\na\r\n",
            b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n",
            b"=8\r\ntxt:name\r\n",
            b"~1\r\n#t\r\n",
            b"_\r\n",
        ];
        let expected = each.map(|bytes| redis::parse_redis_value(bytes).unwrap());
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(replies(&each.concat(), piece).unwrap(), expected, "{piece}");
        }
    }

    #[test]
    fn what_no_server_says_is_an_error_before_it_fills_memory() {
        for stream in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\r\n",
            b"$16777216\r\n",
            b"$-2\r\n",
            b"$x\r\n",
            b"*99999999999\r\n",
            b"%300000000\r\n",
            b"*200000\r\n*70000\r\n",
            b"*3\r\n$1\r\na\r\n$16777200\r\n",
            b"$1\r\nab\r\n",
        ] {
            let error = Frame::default().reply(stream).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Parse, "{}", stream.escape_ascii());
        }
        let endless = [b"+", &[b'x'; LONGEST_LINE][..]].concat();
        assert!(Frame::default().reply(&endless).is_err());
        assert!(Frame::default().reply(&b"*1\r\n".repeat(MOST_PARTS + 1)).is_err());
        assert!(Frame::default().reply(&b"*1\r\n".repeat(1000)).unwrap().is_none());
    }
}
