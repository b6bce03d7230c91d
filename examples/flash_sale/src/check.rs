//! Checks a sale: compares what customers were told with the data in the store.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::outcome::Outcome;
use crate::sale::{Decision, Order, PRODUCTS, Way, units};
use crate::ways::Counter;

/// The report on a sale.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) accepted: u64,
    pub(crate) second: u64,
    pub(crate) sold_out: u64,
    /// The violations, in words.
    pub(crate) wrong: Vec<String>,
}

/// Checks a sale.
pub(crate) async fn check(
    counter: &Counter,
    way: Way,
    orders: u64,
    told: &[(Order, Decision)],
) -> Outcome<Report> {
    let mut report = Report::default();
    let mut sold: BTreeMap<u64, Vec<(Order, u64)>> = BTreeMap::new();
    let mut decided = HashMap::new();
    let mut twice = 0_u64;
    for (order, decision) in told {
        if decided.insert(order.number, *decision).is_some() {
            twice += 1;
        }
        match decision {
            Decision::Accepted(number) => {
                report.accepted += 1;
                sold.entry(order.product).or_default().push((*order, *number));
            }
            Decision::Second => report.second += 1,
            Decision::SoldOut => report.sold_out += 1,
        }
    }
    report.expect(twice == 0, || format!("{twice} orders were answered twice"));
    let missing = (0..orders).filter(|number| !decided.contains_key(number)).count();
    report.expect(missing == 0, || format!("{missing} orders were not answered"));
    let numbers: HashSet<u64> = sold.values().flatten().map(|(_, number)| *number).collect();
    let repeated = report.accepted - numbers.len() as u64;
    report.expect(repeated == 0, || format!("{repeated} numbers were given twice"));
    report.check_products(&sold, units(orders));
    report.check_store(counter, way, &sold, units(orders)).await?;
    Ok(report)
}

impl Report {
    fn expect(&mut self, is_so: bool, otherwise: impl FnOnce() -> String) {
        if !is_so {
            self.wrong.push(otherwise());
        }
    }

    fn check_products(&mut self, sold: &BTreeMap<u64, Vec<(Order, u64)>>, units: u64) {
        let over: u64 = sold.values().map(|of| (of.len() as u64).saturating_sub(units)).sum();
        self.expect(over == 0, || format!("oversold by {over} pieces"));
        let greedy: usize = sold
            .values()
            .map(|of| {
                of.len() - of.iter().map(|(order, _)| order.user).collect::<HashSet<_>>().len()
            })
            .sum();
        self.expect(greedy == 0, || format!("{greedy} pieces went to a user who had one"));
    }

    /// Checks that every confirmed order is deducted at the store exactly once.
    async fn check_store(
        &mut self,
        counter: &Counter,
        way: Way,
        sold: &BTreeMap<u64, Vec<(Order, u64)>>,
        units: u64,
    ) -> Outcome {
        let none = Vec::new();
        let (mut wrong_levels, mut unknown) = (0_u64, 0);
        for product in 0..PRODUCTS {
            let of = sold.get(&product).unwrap_or(&none);
            let left = if way == Way::Stock {
                counter.stock().level(product.to_string()).await?
            } else {
                let shelf = counter.shelf(product).await?;
                let kept: BTreeSet<_> = shelf.sold.iter().map(|s| (s.order, s.number)).collect();
                let told: BTreeSet<_> = of.iter().map(|(o, number)| (o.number, *number)).collect();
                unknown += told.symmetric_difference(&kept).count();
                shelf.left
            };
            wrong_levels += u64::from(left + of.len() as u64 != units);
        }
        self.expect(unknown == 0, || format!("{unknown} sales stand in one place only"));
        self.expect(wrong_levels == 0, || format!("{wrong_levels} products are miscounted"));
        Ok(())
    }
}
