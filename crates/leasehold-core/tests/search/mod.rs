//! Searches all states of a world, breadth first.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker as _, HasDiscoveries, Model};

/// A model whose states can be searched.
pub(crate) trait World:
    Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>
    + Clone
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<W> World for W where
    W: Model<
            State: Clone + Debug + Hash + PartialEq + Send + Sync,
            Action: Clone + Debug + PartialEq,
        > + Clone
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// Checks that all properties of a world hold; prints the number of its states.
pub(crate) fn holds_in(world: &impl World) {
    let checker = world.clone().checker().spawn_bfs().join();
    println!("{world:?}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

/// Checks that a property of a world does not hold; prints the shortest way there.
pub(crate) fn breaks(world: &impl World, property: &'static str) {
    let found = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let checker = world.clone().checker().finish_when(found).spawn_bfs().join();
    let path = checker.assert_any_discovery(property);
    println!("{world:?}: {:?}", path.into_actions());
}

/// Tests, each of a world of which a property does not hold.
macro_rules! broken {
    ($(fn $test:ident(); $world:expr, $property:expr;)+) => {$(
        #[test]
        fn $test() {
            breaks(&$world, $property);
        }
    )+};
}

pub(crate) use broken;
