//! Rules for names that are made now: nobody may confuse them with others.
//!
//! The rules are those of Unicode Technical Standard 39. A new name is at most *highly restrictive*:
//! it has one script, or Latin with the scripts of Japanese, Chinese or Korean. No new name may have
//! the same *skeleton* as another name: the form in which all characters that look alike are one.
//!
//! These rules never hold for a name that a file already has. Other programs made it, and people
//! must be able to see and to remove it.

use pitcrew_protocol::{AgentName, ApiError, TeamName};
use unicode_security::mixed_script::AugmentedScriptSet;
use unicode_security::skeleton;

use crate::refusal;

/// Checks the name of a new agent.
pub(crate) fn agent(given: &str) -> Result<AgentName, ApiError> {
    let name = AgentName::new(given).map_err(|error| refusal::bad_name(given, &error))?;
    check_scripts(given)?;
    Ok(name)
}

/// Checks the name of a new team.
pub(crate) fn team(given: &str) -> Result<TeamName, ApiError> {
    let name = TeamName::new(given).map_err(|error| refusal::bad_name(given, &error))?;
    check_scripts(given)?;
    Ok(name)
}

/// Whether two names look the same by the tables of the standard. Upper and lower case are not
/// distinguished.
pub(crate) fn is_confusable(name: &str, other: &str) -> bool {
    // A great letter can look like another small one than its own: `I` like `l`.
    let as_given = |name: &str| skeleton(name).collect::<String>().to_lowercase();
    let in_small = |name: &str| skeleton(&name.to_lowercase()).collect::<String>();
    as_given(name) == as_given(other) || in_small(name) == in_small(other)
}

fn check_scripts(given: &str) -> Result<(), ApiError> {
    if is_highly_restrictive(given) {
        return Ok(());
    }
    let message = format!(
        "the name {given:?} mixes letters of scripts that look alike; use the letters of one script, \
         or of Latin and Japanese, Chinese or Korean"
    );
    Err(refusal::invalid(message).with("name", given))
}

/// Whether a name has one script, or Latin with the scripts of Japanese, Chinese or Korean. Digits,
/// signs and emojis belong to every script.
fn is_highly_restrictive(name: &str) -> bool {
    let latin = AugmentedScriptSet::from('a');
    let mut all = AugmentedScriptSet::default();
    let mut beside_latin = AugmentedScriptSet::default();
    for scripts in name.chars().map(AugmentedScriptSet::from) {
        all.intersect_with(scripts);
        let mut in_latin = scripts;
        in_latin.intersect_with(latin);
        if in_latin.is_empty() {
            beside_latin.intersect_with(scripts);
        }
    }
    !all.is_empty() || beside_latin.hanb || beside_latin.jpan || beside_latin.kore
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_script_and_of_east_asia_stay_possible() {
        for name in [
            "bob",
            "team-lead-2",
            "Zoë 2",
            "Борис-1",
            "Ωμέγα1",
            "דוד-1",
            "علي1",
            "राम1",
            "日本1",
            "ひらがなカタカナ漢字a",
            "한국a漢字",
            "ㄅㄆ漢a",
            "a🚀",
            "naïve_x",
            "ไทย1",
            "Ünal",
        ] {
            assert!(is_highly_restrictive(name), "{name}");
            assert!(agent(name).is_ok(), "{name}");
            assert!(team(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn names_of_mixed_scripts_are_refused_with_the_reason() {
        for name in ["team-le\u{430}d", "b\u{43E}b", "\u{3B1}lpha", "p\u{430}ypal", "аb漢", "ωmega"]
        {
            let error = agent(name).unwrap_err();
            assert!(error.message.contains("mixes letters of scripts"), "{name}: {error:?}");
            assert!(team(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_looks_alike_has_one_form() {
        for (a, b) in [
            ("bob1", "bobl"),
            ("Bob", "bob"),
            ("BOBI", "bob1"),
            ("modern", "modem"),
            ("\u{441}\u{43E}\u{440}1", "cop1"),
            ("user", "us\u{435}r"),
        ] {
            assert!(is_confusable(a, b), "{a} {b}");
        }
        for (a, b) in [("bob", "bob-2"), ("mate1", "mate2"), ("ann", "anna"), ("x", "y")] {
            assert!(!is_confusable(a, b), "{a} {b}");
        }
    }
}
