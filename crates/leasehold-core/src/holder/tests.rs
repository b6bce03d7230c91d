//! Tests of holders and waiters.

use super::*;

#[test]
fn a_holder_id_survives_its_text() {
    let id = HolderId { client: ClientId(0xab), attempt: 7 };
    assert_eq!(id.to_string(), format!("{}ab-7", "0".repeat(30)));
    assert_eq!(id.to_string().parse::<HolderId>().unwrap(), id);
    assert_eq!(format!("{id:?} {:?}", id.client), format!("{id} {}", id.client), "in events, too");
    assert_eq!(String::from(id), id.to_string());
    assert_eq!(String::from(id.client), id.client.to_string());
    for wrong in ["", "ab-7", "+0000000000000000000000000000000-1"] {
        assert!(wrong.parse::<HolderId>().is_err(), "{wrong}");
    }
}

#[test]
fn weight_and_capacity_tell_the_mode() {
    let permits = Mode::Permits { count: 2, capacity: 5 };
    for mode in [Mode::Exclusive, Mode::Shared, permits] {
        assert_eq!(Mode::of(mode.weight(), mode.capacity()), mode);
    }
}

#[cfg(feature = "serde")]
#[test]
fn the_name_of_a_mode_is_that_in_json() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        assert!(Mode::WORDS.contains(&mode.as_str()));
    }
    let permits = Mode::Permits { count: 2, capacity: 5 };
    assert!(serde_json::to_value(permits).unwrap().get(permits.as_str()).is_some());
}

#[test]
fn the_first_hold_that_must_end_is_in_the_way() {
    use Mode::{Exclusive, Shared};
    let up = |mode: Mode, held: &[Mode], waits| mode.held_up_by(held.iter().copied(), waits);
    assert_eq!(up(Exclusive, &[Shared, Shared], false), Some(0));
    assert_eq!(up(Shared, &[Exclusive], false), Some(0));
    assert_eq!(up(Exclusive, &[], false), None);
    assert_eq!(up(Shared, &[Shared], false), None);
    assert_eq!(up(Shared, &[Shared], true), Some(0), "behind a writer");
    let permits = |count| Mode::Permits { count, capacity: 5 };
    assert_eq!(up(permits(2), &[permits(1), permits(2)], false), None, "all five");
    assert_eq!(up(permits(3), &[permits(1), permits(2)], false), Some(0));
}

#[test]
fn what_a_holder_says_of_itself_has_its_limits() {
    let info = |bytes: usize| {
        let info = HolderInfo::new("vm", 7).with_label(Some("x".repeat(bytes - 2)));
        info.check().map_err(|refusal| refusal.what)
    };
    assert_eq!(info(MAX_INFO_BYTES), Ok(()));
    assert_eq!(info(MAX_INFO_BYTES + 1), Err("label"));
}

#[test]
fn a_name_is_free_if_neither_we_nor_others_hold_it() {
    let id = HolderId { client: ClientId(0), attempt: 0 };
    let holder = Holder::new(id, Mode::Exclusive, None);
    assert!(Status::default().is_free());
    assert!(!Status::default().with_holders(vec![holder]).is_free());
    let foreign = Status::default().with_foreign(Some(ForeignHolder::new("x", None)));
    assert!(!foreign.is_free());
}

#[test]
fn permits_are_checked_against_the_capacity() {
    assert!(Mode::Permits { count: 1, capacity: 1 }.check().is_ok());
    for (count, capacity) in [(0, 1), (2, 1), (1, 0), (1, LOCK_CAPACITY)] {
        assert!(Mode::Permits { count, capacity }.check().is_err(), "{count} of {capacity}");
    }
}
