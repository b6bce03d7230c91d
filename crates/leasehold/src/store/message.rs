//! Messages to clients as text, for stores that deliver them by notification or by pipe.

use leasehold_core::{FencingToken, Message};

/// The text of a message; `None` for messages that no store sends.
pub(crate) fn encode(message: &Message) -> Option<String> {
    match *message {
        Message::Granted { attempt, token, now_us } => {
            Some(format!("granted {attempt} {} {now_us}", token.get()))
        }
        Message::Revoked { attempt, forced } => {
            let how = if forced { "forced" } else { "asked" };
            Some(format!("revoked {attempt} {how}"))
        }
        _ => None,
    }
}

/// The message of a text; `None` for a message of a later release.
pub(crate) fn decode(text: &str) -> Option<Message> {
    let words: Vec<&str> = text.split(' ').collect();
    let number = |word: &str| word.parse::<u64>().ok();
    match words[..] {
        ["granted", attempt, token, now_us] => Some(Message::Granted {
            attempt: number(attempt)?,
            token: FencingToken::from_number(number(token)?)?,
            now_us: number(now_us)?,
        }),
        ["revoked", attempt, how] => {
            Some(Message::Revoked { attempt: number(attempt)?, forced: how == "forced" })
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
        let granted = Message::Granted { attempt: u64::MAX, token, now_us: 1 };
        let revoked = Message::Revoked { attempt: 7, forced: true };
        for message in [granted, revoked] {
            assert_eq!(decode(&encode(&message).unwrap()), Some(message));
        }
        for foreign in ["", "granted", "granted 1 0 3", "revoked 1", "told 1 2 3"] {
            assert_eq!(decode(foreign), None, "{foreign}");
        }
    }
}
