//! Operations on the records of several names.

use std::convert::Infallible;

use super::*;
use crate::name::LockName;
use crate::page::Page;
use crate::request::{Answer, Operation, RenewLease};

/// Records, of which those with the name `behind` need another call to finish their work.
struct Behind;

impl Records for Behind {
    type Error = Infallible;

    fn list(&mut self, _: &str, _: u32) -> Result<Vec<LockName>, Infallible> {
        Ok(Vec::new())
    }

    fn page(&mut self, _: &str, _: Option<&str>, _: u32) -> Result<Page, Infallible> {
        Ok(Page::new(Vec::new(), None, 0))
    }

    fn step(&mut self, _: Now, name: &LockName, _: &Action) -> Result<Outcome, Infallible> {
        let more = name.as_str() == "behind";
        Ok(Outcome { reply: Reply::Gone, messages: Vec::new(), more })
    }
}

fn renewed(names: &[&str]) -> Answer {
    let lease = |name: &&str| RenewLease::new(LockName::new(*name).unwrap(), id(1, 1), TTL);
    let renewal = Operation::Renew(names.iter().map(lease).collect());
    apply(&mut Behind, Bench::new().now(), &renewal).unwrap().0
}

#[test]
fn of_many_renewals_there_is_more_to_do_if_there_is_for_any() {
    for names in [["behind", "done"], ["done", "behind"], ["behind", "behind"]] {
        assert!(renewed(&names).more, "{names:?}");
    }
    let answer = renewed(&["done", "done"]);
    assert_eq!((answer.more, answer.reply), (false, Reply::Many(vec![Reply::Gone; 2])));
}
