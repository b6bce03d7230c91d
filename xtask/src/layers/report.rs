//! `cargo xtask layers --report`: rooms, arrows and sizes, as a table to read.
//!
//! The rooms of a folder are the files and folders in it. An arrow goes from a room to one that it
//! imports; it goes upward if the table of layers forbids it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::graph::{Crate, rings};
use super::imports::Path;
use super::table::{Layers, tables};

/// Lines of a room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    product: usize,
    tests: usize,
}

/// Every crate, and in it every folder that has a table of its own.
pub(super) fn text(crates: &[Crate<'_>]) -> String {
    let mut text = String::new();
    for found in crates {
        let own: Vec<&Layers> = tables(found.folder).collect();
        if own.iter().all(|layers| !layers.within.is_empty()) {
            folder(&mut text, found, &Path::new(), None);
        }
        for layers in own {
            let within = layers.within.iter().map(|part| (*part).to_owned()).collect();
            folder(&mut text, found, &within, Some(layers));
        }
    }
    text
}

fn folder(text: &mut String, found: &Crate<'_>, within: &Path, layers: Option<&Layers>) {
    let room = |module: &Path| -> Option<Path> {
        let is_inside = module.starts_with(within) && module.len() > within.len();
        is_inside.then(|| module[..=within.len()].to_vec())
    };
    let rooms: BTreeMap<Path, Lines> = rooms(found, within, room);
    let ends = found.arrows.iter().filter_map(|arrow| Some((room(&arrow.from)?, room(&arrow.to)?)));
    let arrows: BTreeSet<(Path, Path)> = ends.filter(|(from, to)| from != to).collect();
    let is_upward = |layers: &Layers, (from, to): &(Path, Path)| {
        let place = |room: &Path| layers.find(layers.inside(room)?);
        matches!((place(from), place(to)), (Some(from), Some(to)) if !from.may_import(&to))
    };
    let upward = layers.map_or_else(
        || "-".to_owned(),
        |layers| arrows.iter().filter(|arrow| is_upward(layers, arrow)).count().to_string(),
    );
    let is_folder = |room: &&Path| {
        found.modules.keys().any(|module| module.starts_with(room) && module.len() > room.len())
    };
    let folders = rooms.keys().filter(|room| *room != within).filter(is_folder).count();
    let of_rooms = rings(arrows.iter().map(|(from, to)| (from, to))).len();
    let of_files =
        found.rings().into_iter().filter(|ring| ring.iter().any(|file| file.starts_with(within)));
    let name = [vec![found.folder.to_owned()], within.clone()].concat().join("/");
    let _ = writeln!(
        text,
        "{name}\n  rooms {} ({} files, {folders} folders)  arrows {}  upward {upward}  \
         rings of rooms {of_rooms}  rings of files {}",
        rooms.len(),
        rooms.len() - folders,
        arrows.len(),
        of_files.count(),
    );
    let total = rooms.values().fold(Lines::default(), |sum, lines| Lines {
        product: sum.product + lines.product,
        tests: sum.tests + lines.tests,
    });
    let _ = writeln!(text, "  {:>8} {:>8}  part", "product", "tests");
    let parts =
        rooms.iter().map(|(room, lines)| (room.last().map_or("(root)", String::as_str), lines));
    for (part, lines) in parts.chain([("(all)", &total)]) {
        let _ = writeln!(text, "  {:>8} {:>8}  {part}", lines.product, lines.tests);
    }
    text.push('\n');
}

/// The lines of each room; those of the folder's own file are a room of the folder's name.
fn rooms(
    found: &Crate<'_>,
    within: &Path,
    room: impl Fn(&Path) -> Option<Path>,
) -> BTreeMap<Path, Lines> {
    let is_test_crate = format!("/{}/", found.folder).contains("/tests/");
    let mut rooms: BTreeMap<Path, Lines> = BTreeMap::new();
    for (path, module) in &found.modules {
        let Some(room) = room(path).or((path == within).then(|| within.clone())) else { continue };
        let all = module.file.text.lines().count();
        let tests = if module.is_test || is_test_crate { all } else { module.test_lines };
        let lines = rooms.entry(room).or_default();
        lines.product += all - tests;
        lines.tests += tests;
    }
    rooms
}
