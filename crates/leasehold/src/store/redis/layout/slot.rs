//! The slot of a key, in a cluster.

use crc::{CRC_16_XMODEM, Crc};

/// The number of slots in a cluster.
pub(crate) const SLOTS: u16 = 16_384;

const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The slot of a key: that of its hash tag, or of the whole key if it has none.
pub(crate) fn slot(key: &[u8]) -> u16 {
    CRC.checksum(tag(key).unwrap_or(key)) % SLOTS
}

/// The hash tag: the bytes between the first `{` and the next `}`, unless there are none.
pub(crate) fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = &key[open + 1..];
    let length = rest.iter().position(|byte| *byte == b'}')?;
    (length > 0).then(|| &rest[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_slot_that_the_specification_of_redis_cluster_gives_it() {
        // The specification's own example, and for the others the output of CLUSTER KEYSLOT of
        // Redis 7.0.
        for (key, expected) in [
            ("123456789", 12_739),
            ("{user1000}.following", 3_443),
            ("{user1000}.followers", 3_443),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("foo{bar}{zap}", 5_061),
            ("foo{bar", 15_278),
            ("", 0),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
