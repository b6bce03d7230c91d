//! The figures of the campaign as pictures.

use std::path::Path;

use plotters::prelude::*;

use super::runs::{Runs, worst};
use crate::outcome::Outcome;
use crate::soak::Soak;

const SIZE: (u32, u32) = (900, 480);
const COLOR: RGBColor = RGBColor(31, 119, 180);

/// A bar for each topology: the longest time without a grant.
pub(super) fn silence(runs: &Runs, file: &Path) -> Outcome {
    let worst: Vec<(String, u64)> = worst(runs).into_iter().collect();
    let highest = worst.iter().map(|(_, ms)| *ms).max().unwrap_or(1);
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("Longest time in which nobody was granted anything", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(120)
        .build_cartesian_2d(0..highest * 11 / 10 + 1, (0..worst.len()).into_segmented())?;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) => {
            worst.iter().rev().nth(*at).map_or_else(String::new, |(name, _)| name.clone())
        }
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(worst.len())
        .y_label_formatter(&name)
        .x_desc("ms after a fault has begun, until the next one")
        .draw()?;
    chart.draw_series(worst.iter().rev().enumerate().map(|(at, (_, ms))| {
        let corners = [(0, SegmentValue::Exact(at)), (*ms, SegmentValue::Exact(at + 1))];
        let mut bar = Rectangle::new(corners, COLOR.filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    Ok(root.present()?)
}

/// A line for each measure over time, each as a share of its highest value.
pub(super) fn soak(soak: &Soak, file: &Path) -> Outcome {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("Soak: each measure as a share of its highest value", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..soak.seconds / 60.0, 0.0..1.05)?;
    chart.configure_mesh().x_desc("minutes").draw()?;
    for (at, name) in Soak::measures().enumerate() {
        let values = soak.samples.iter().map(|(_, all)| all[at]);
        let highest = values.fold(f64::MIN_POSITIVE, f64::max);
        let color = Palette99::pick(at).to_rgba();
        let points = soak.samples.iter().map(|(time, all)| (time / 60.0, all[at] / highest));
        chart
            .draw_series(LineSeries::new(points, color))?
            .label(name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(root.present()?)
}
