//! For an unknown name, suggests the known name that was probably meant.

/// Returns the known name that is most similar to `given`. Returns `None` if no known name is
/// similar enough. Upper and lower case make no difference.
#[must_use]
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let given = given.to_lowercase();
    // The suggestion is allowed to differ in at most a third of the characters. With a higher
    // limit, the suggestion would often be an unrelated name.
    let most = (given.chars().count() / 3).max(1);
    let best = known
        .into_iter()
        .map(|name| (strsim::osa_distance(&given, &name.to_lowercase()), name))
        .min_by_key(|(d, _)| *d)?;
    (best.0 <= most).then(|| best.1.to_owned())
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
            assert_eq!(strsim::osa_distance(from, to), edits, "{from} {to}");
        }
    }
}
