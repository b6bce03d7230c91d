//! The requests to two servers of a fleet, as a picture.

use std::path::Path;

use leasehold_testkit::fleet::{Plan, Report};
use plotters::prelude::*;

use crate::outcome::Outcome;

const SIZE: (u32, u32) = (900, 480);

/// Draws the commands and the dials of each second at the server that fails, and the commands at a
/// server that does not fail.
pub(super) fn draw(plan: &Plan, report: &Report, file: &Path) -> Outcome {
    let [failing, other] = &report.seconds;
    let lines = [
        ("dials, at the server that fails", failing, 1, RGBColor(150, 150, 150)),
        ("commands, at the server that fails", failing, 0, RGBColor(214, 39, 40)),
        ("commands, at another", other, 0, RGBColor(31, 119, 180)),
    ];
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("{} clients on {} servers, simulated", plan.clients, plan.nodes);
    let most = failing.iter().chain(other).flatten().max().map_or(1.0, |most| f64::from(*most));
    let top = most * 10.0;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..report.took.as_secs_f64(), (1.0..top).log_scale())?;
    chart.configure_mesh().x_desc("seconds").y_desc("in each second").draw()?;
    for (what, seconds, kind, color) in lines {
        // A logarithmic scale has no zero.
        let points = seconds
            .iter()
            .zip(0_u32..)
            .map(|(counted, second)| (f64::from(second), f64::from(counted[kind].max(1))));
        chart
            .draw_series(LineSeries::new(points, color))?
            .label(what)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], color));
    }
    for ((event, at), height) in report.events.iter().zip([8.0, 5.0, 8.0]) {
        let at = at.as_secs_f64();
        chart.draw_series([PathElement::new(vec![(at, 1.0), (at, top)], BLACK.mix(0.4))])?;
        let label = Text::new(*event, (at + 3.0, most * height), ("sans-serif", 14));
        chart.draw_series([label])?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(root.present()?)
}
