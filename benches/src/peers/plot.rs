//! The tables of the peers as pictures.

use std::path::Path;

use plotters::prelude::*;

use crate::outcome::Outcome;
use crate::peers::row::{Row, Want};
use crate::peers::trial::Trials;

const SIZE: (u32, u32) = (900, 480);

const OURS: RGBColor = RGBColor(31, 119, 180);
const OTHERS: RGBColor = RGBColor(150, 150, 150);

/// Draws how fast the locks of one process are, and for one hot name how fast they are and how long
/// the unluckiest waited.
pub(super) fn draw(rows: &[(Row, Trials)], directory: &Path) -> Outcome {
    std::fs::create_dir_all(directory)?;
    for (row, trials) in rows {
        let Row { want, processes, tasks } = *row;
        match want {
            Want::Alone => {
                bars(&row.title(), trials, &directory.join(format!("alone-{tasks}.svg")))?;
            }
            Want::Hot => {
                let file = directory.join(format!("hot-{processes}x{tasks}.svg"));
                scatter(&row.title(), trials, &file)?;
            }
        }
    }
    Ok(())
}

fn color(name: &str) -> RGBColor {
    if name.starts_with("leasehold") { OURS } else { OTHERS }
}

/// A bar for each peer: entries per second.
fn bars(title: &str, trials: &Trials, file: &Path) -> Outcome {
    let measured: Vec<(&str, f64)> = trials
        .values()
        .filter_map(|(peer, trial)| Some((peer.name, trial.as_ref().ok()?.rate())))
        .collect();
    let highest = measured.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(210)
        .build_cartesian_2d(0.0..highest * 1.1, (0..measured.len()).into_segmented())?;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) => measured[measured.len() - 1 - at].0.to_owned(),
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(measured.len())
        .y_label_formatter(&name)
        .x_desc("acquire + release, pairs per second")
        .draw()?;
    chart.draw_series(measured.iter().rev().enumerate().map(|(at, (name, rate))| {
        let corners = [(0.0, SegmentValue::Exact(at)), (*rate, SegmentValue::Exact(at + 1))];
        let mut bar = Rectangle::new(corners, color(name).filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    Ok(root.present()?)
}

/// A point for each peer: entries per second to the right, the longest wait upwards.
fn scatter(title: &str, trials: &Trials, file: &Path) -> Outcome {
    let measured: Vec<(&str, f64, f64)> = trials
        .values()
        .filter_map(|(peer, trial)| {
            let trial = trial.as_ref().ok()?;
            Some((peer.name, trial.rate(), trial.longest.as_secs_f64() * 1e3))
        })
        .collect();
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        (low / 2.0..high * 4.0).log_scale()
    };
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(
            range(&mut measured.iter().map(|(_, rate, _)| *rate)),
            range(&mut measured.iter().map(|(.., longest)| *longest)),
        )?;
    chart
        .configure_mesh()
        .x_desc("entries per second (more is better)")
        .y_desc("longest wait, ms (less is better)")
        .draw()?;
    chart.draw_series(measured.iter().map(|(name, rate, longest)| {
        EmptyElement::at((*rate, *longest))
            + Circle::new((0, 0), 5, color(name).filled())
            + Text::new((*name).to_owned(), (9, -6), ("sans-serif", 14).into_font())
    }))?;
    Ok(root.present()?)
}
