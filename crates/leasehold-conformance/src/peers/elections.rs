//! Cases of leaders, candidates and followers.

use leasehold::election::{Observation, Observed};

use crate::subject::{Subject, must};

/// The value of the next leader that the observer sees, whichever client led in between.
async fn next_value(observation: &mut Observation) -> String {
    loop {
        if let Observed::Leader(leader) = must(observation.next().await) {
            return leader.value;
        }
    }
}

/// Followers see each value of a leader, and then the value of the next leader.
///
/// etcd: `TestElectionWait`, `TestElectionObserveFreshResponsesOnProclaim`,
/// `TestV3ElectionObserve`.
pub async fn followers_see_what_each_leader_says_in_turn(subject: &Subject) {
    let (one, two, follower) =
        (subject.client().await, subject.client().await, subject.client().await);
    let name = subject.fresh_name("election");
    let scene = async {
        let mut observations = Vec::new();
        for _ in 0..3 {
            observations.push(must(follower.election(&name).observe().await));
        }
        let mut all_see = async |expected: &str| {
            for observation in &mut observations {
                assert_eq!(next_value(observation).await, expected);
            }
        };
        let first = must(one.election(&name).campaign("one").await);
        all_see("one").await;
        for word in ["one, elsewhere", "one, at home"] {
            must(first.proclaim(word).await);
            all_see(word).await;
        }
        must(first.resign().await);
        let second = must(two.election(&name).campaign("two").await);
        all_see("two").await;
        must(second.resign().await);
    };
    subject.drive(scene).await;
}
