//! Messages to clients as text, for stores that deliver them by notification or by pipe.

use leasehold_core::{FencingToken, Message};

/// The text of a message; `None` for messages that no store sends.
pub(crate) fn encode(message: &Message) -> Option<String> {
    match *message {
        Message::Granted { attempt, nonce, token, now_us, deadline_us } => {
            Some(format!("granted {attempt} {nonce} {} {now_us} {deadline_us}", token.get()))
        }
        Message::Revoked { attempt, nonce, token, forced } => {
            let how = if forced { "forced" } else { "asked" };
            Some(format!("revoked {attempt} {nonce} {} {how}", token.get()))
        }
        _ => None,
    }
}

/// The message of a text; `None` for a message of a later release.
pub(crate) fn decode(text: &str) -> Option<Message> {
    let words: Vec<&str> = text.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let token = FencingToken::from_number(number(3)?)?;
    let (attempt, nonce) = (number(1)?, number(2)?);
    match (words[0], words.len()) {
        ("granted", 6) => {
            let (now_us, deadline_us) = (number(4)?, number(5)?);
            Some(Message::Granted { attempt, nonce, token, now_us, deadline_us })
        }
        ("revoked", 5) => {
            let forced = words[4] == "forced";
            Some(Message::Revoked { attempt, nonce, token, forced })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written_and_a_foreign_one_is_none() {
        let token = FencingToken::from_micros(1_900_000_000_000_000);
        let granted =
            Message::Granted { attempt: 7, nonce: u64::MAX, token, now_us: 1, deadline_us: 2 };
        let revoked = Message::Revoked { attempt: 7, nonce: 8, token, forced: true };
        for message in [granted, revoked] {
            assert_eq!(decode(&encode(&message).unwrap()), Some(message));
        }
        for foreign in ["", "granted", "granted 1 2 3 4", "revoked 1 2 0 asked", "told 1 2 3 4 5"] {
            assert_eq!(decode(foreign), None, "{foreign}");
        }
    }
}
