//! The store checks its file: the file at its path must be the one that all processes use.

use super::*;

/// Removes the files that a shell pattern would match: those that begin with the database's name.
fn remove(place: &Place, suffixes: &[&str]) {
    for suffix in suffixes {
        let mut path = place.path().into_os_string();
        path.push(suffix);
        let path = PathBuf::from(path);
        let is_directory = path.is_dir();
        let removed = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.unwrap();
    }
}

#[tokio::test]
async fn what_is_removed_in_use_is_noticed_by_its_holders_and_joined_by_nobody() {
    let ways: [&[&str]; 5] = [
        &[""],
        &["", "-wal", "-shm"],
        &["-wal", "-shm"],
        &[".clients"],
        &["", "-wal", "-shm", ".clients"],
    ];
    for way in ways {
        let place = Place::new();
        let store = place.open();
        token(on(&store, "a", acquire(ALICE, 1, true)).await);
        remove(&place, way);
        // A newcomer neither joins the remaining files nor creates new ones while others rely on
        // their leases.
        let refused = place.refusal();
        assert_eq!(refused.kind(), StoreErrorKind::Corrupt, "{way:?}: {refused}");
        assert!(refused.to_string().contains("start again"), "{way:?}: {refused}");
        let error = failure(&store, "a", release(ALICE, 1)).await;
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{way:?}: {error}");
        let renewal = Operation::Keep(vec![(name("a"), renew(TTL))]);
        let renewed = store.execute(renewal).await.unwrap().reply;
        assert_eq!(renewed, Reply::Many(vec![Reply::NotHeld]), "{way:?}");
        drop(store);
        // Without the pipes beside the database, a lease in it ends at its deadline.
        place.clock.advance(OVER);
        token(on(&place.open(), "a", acquire(BOB, 1, false)).await);
    }
}

#[tokio::test]
async fn a_database_that_was_put_in_the_place_of_another_is_not_joined_while_that_is_in_use() {
    let (place, other) = (Place::new(), Place::new());
    drop(other.open());
    let store = place.open();
    token(on(&store, "a", acquire(ALICE, 1, true)).await);
    fs::rename(other.path(), place.path()).unwrap();
    assert_eq!(place.refusal().kind(), StoreErrorKind::Corrupt);
    let error = failure(&store, "a", Action::Look { limit: 1 }).await;
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    drop(store);
    token(on(&place.open(), "a", acquire(BOB, 1, false)).await);
}

#[tokio::test]
async fn a_copy_of_the_database_is_used_where_nobody_uses_another() {
    let place = Place::new();
    let store = place.open();
    let before = token(on(&store, "a", acquire(ALICE, 1, true)).await);
    on(&store, "a", release(ALICE, 1)).await;
    drop(store);
    let files = ["locks.db", "locks.db-wal"].map(|file| place.directory.path().join(file));
    let saved = files.each_ref().map(|file| fs::read(file).unwrap());
    remove(&place, &["", "-wal", "-shm", ".clients"]);
    files.iter().zip(saved).for_each(|(file, saved)| fs::write(file, saved).unwrap());
    let store = place.open();
    assert!(token(on(&store, "a", acquire(BOB, 1, false)).await) > before);
    // After that, the files belong together for everybody else.
    drop(place.open());
}

#[tokio::test]
async fn another_boot_id_is_no_restart_while_somebody_is_there() {
    let place = Place::new();
    let store = place.open();
    token(on(&store, "a", acquire(ALICE, 1, true)).await);
    let other = || File::with_clock(place.path(), place.clock.clone(), "second".into());
    let refused = of_store(other());
    assert_eq!(refused.kind(), StoreErrorKind::Unsupported, "{refused}");
    assert!(refused.to_string().contains("another boot id"), "{refused}");
    drop(store);
    token(on(&other().unwrap(), "a", acquire(BOB, 1, false)).await);
}

#[tokio::test]
async fn a_hard_link_to_a_database_is_refused() {
    let place = Place::new();
    let store = place.open();
    let link = place.directory.path().join("link.db");
    fs::hard_link(place.path(), &link).unwrap();
    for path in [place.path(), link.clone()] {
        let refused = of_store(File::open(path));
        assert_eq!(refused.kind(), StoreErrorKind::Unsupported, "{refused}");
        assert!(refused.to_string().contains("hard links"), "{refused}");
    }
    // Processes that have the database open go on: nobody else can open it by the other name.
    token(on(&store, "a", acquire(ALICE, 1, true)).await);
    fs::remove_file(link).unwrap();
    drop(place.open());
}

#[test]
fn a_name_that_is_too_long_for_the_files_beside_it_is_refused_and_leaves_nothing() {
    let place = Place::new();
    for length in [250, 256] {
        let refused = of_store(File::open(place.directory.path().join("f".repeat(length))));
        assert_eq!(refused.kind(), StoreErrorKind::Unsupported, "{refused}");
        assert!(refused.to_string().contains("name a shorter path"), "{refused}");
    }
    assert_eq!(fs::read_dir(place.directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_is_looked_at_is_not_created() {
    let place = Place::new();
    let files = || fs::read_dir(place.directory.path()).unwrap().count();
    let findings = examine(&place.path()).unwrap();
    assert!(findings.iter().all(|finding| finding.level == crate::store::Level::Ok));
    assert_eq!(files(), 0);
    fs::write(place.path(), "").unwrap();
    examine(&place.path()).unwrap();
    assert_eq!(files(), 1);
    fs::remove_file(place.path()).unwrap();
    let store = place.open();
    token(on(&store, "a", acquire(ALICE, 1, true)).await);
    let before = files();
    examine(&place.path()).unwrap();
    assert_eq!(files(), before);
    // The store is unharmed.
    assert_eq!(on(&store, "a", release(ALICE, 1)).await, Reply::Ended(true));
}

/// A user without rights; only root can give files to it.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_directory_of_another_user_beside_the_database_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    if !is_root() {
        return;
    }
    let place = Place::new();
    let mut side = place.path().into_os_string();
    side.push(".clients");
    fs::create_dir(&side).unwrap();
    fs::set_permissions(&side, fs::Permissions::from_mode(0o777)).unwrap();
    chown(&side, Some(NOBODY), Some(NOBODY)).unwrap();
    let refused = place.refusal();
    assert_eq!(refused.kind(), StoreErrorKind::Denied, "{refused}");
    assert!(refused.to_string().contains("belongs to user 65534"), "{refused}");
    assert!(refused.to_string().contains("remove it"), "{refused}");
    fs::remove_dir(&side).unwrap();
    drop(place.open());
}

#[test]
fn a_directory_beside_the_database_in_which_others_may_write_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    if !is_root() {
        return;
    }
    let place = Place::new();
    drop(place.open());
    let mut side = place.path().into_os_string();
    side.push(".clients");
    // The store repairs a directory that belongs to its user, but this directory belongs to another
    // user.
    chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    chown(&side, Some(NOBODY), Some(NOBODY)).unwrap();
    for mode in [0o777, 0o770] {
        fs::set_permissions(&side, fs::Permissions::from_mode(mode)).unwrap();
        let refused = place.refusal();
        assert_eq!(refused.kind(), StoreErrorKind::Denied, "{mode:o}: {refused}");
        assert!(refused.to_string().contains("may be written by users who may not"), "{refused}");
    }
    fs::set_permissions(&side, fs::Permissions::from_mode(0o700)).unwrap();
    drop(place.open());
}

#[test]
fn a_database_of_another_user_where_all_may_write_is_warned_of() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    if !is_root() {
        return;
    }
    let place = Place::new();
    assert!(place.open().warnings().is_empty());
    let everybodys = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(place.directory.path(), everybodys).unwrap();
    chown(place.path(), Some(NOBODY), None).unwrap();
    let warnings = place.open().warnings();
    assert!(warnings.iter().any(|warning| warning.contains("user 65534")), "{warnings:?}");
}
