//! Which of the known names was meant by one that is not known.

/// The known name nearest to `given`, if one is near enough to be what was meant; upper and lower case are one.
#[must_use]
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let given = given.to_lowercase();
    let most = (given.chars().count() / 3).max(1);
    let best = known
        .into_iter()
        .map(|name| (distance(&given, &name.to_lowercase()), name))
        .min_by_key(|(d, _)| *d)?;
    (best.0 <= most).then(|| best.1.to_owned())
}

/// How many characters must be put in, taken out, replaced or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let mut previous = None;
    for (row, c) in from.chars().enumerate() {
        let mut now = Vec::with_capacity(last.len());
        now.push(row + 1);
        for (column, t) in to.iter().enumerate() {
            let at = |line: &[usize], n: usize| line.get(n).copied().unwrap_or(usize::MAX - 1);
            let mut cost = (at(&last, column) + usize::from(c != *t))
                .min(at(&last, column + 1) + 1)
                .min(at(&now, column) + 1);
            let left = column.checked_sub(1);
            if let Some(left) =
                left.filter(|left| previous == Some(*t) && to.get(*left) == Some(&c))
            {
                cost = cost.min(at(&before, left) + 1);
            }
            now.push(cost);
        }
        before = std::mem::replace(&mut last, now);
        previous = Some(c);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_name() {
        let known = ["worker", "planner", "team-lead"];
        for (given, meant) in [
            ("wroker", Some("worker")),
            ("Workr", Some("worker")),
            ("planer", Some("planner")),
            ("teamlead", Some("team-lead")),
            ("nobody", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, known).as_deref(), meant, "{given}");
        }
    }

    #[test]
    fn the_distance_counts_edits() {
        for (from, to, edits) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
        }
    }
}
