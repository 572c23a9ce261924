//! Tests the seeds, and the plans that are made from them.

use pitcrew_chaos::chance::Chance;
use pitcrew_chaos::cli::{kept, kept_ends};
use pitcrew_chaos::harm::{Harm, ModelFault};
use pitcrew_chaos::plan::{FaceKind, Place, Plan, Victim};

#[test]
fn a_seed_has_one_plan() {
    for seed in 0..50 {
        assert_eq!(Plan::of(seed, None).to_string(), Plan::of(seed, None).to_string());
    }
    assert_ne!(Plan::of(1, None).to_string(), Plan::of(2, None).to_string());
}

#[test]
fn neighbouring_seeds_do_not_share_their_numbers() {
    let numbers = |seed| {
        let mut chance = Chance::new(seed);
        (0..20).map(|_| chance.number()).collect::<Vec<_>>()
    };
    for seed in 0..50 {
        let (one, next) = (numbers(seed), numbers(seed + 1));
        assert!(one.iter().all(|number| !next.contains(number)), "seed {seed}");
    }
}

#[test]
fn the_long_run_has_a_thousand_crashes_in_all_places() {
    let plans: Vec<Plan> = (0..150).map(|seed| Plan::of(seed, None)).collect();
    let crashes: usize = plans.iter().map(|plan| plan.crashes.len()).sum();
    assert!(crashes >= 1_000, "{crashes}");
    for place in Place::ALL {
        assert!(plans.iter().filter(|plan| plan.place == place).count() > 30, "{place:?}");
    }
    let in_process = plans.iter().filter(|plan| plan.place == Place::InProcess);
    assert!(
        in_process
            .flat_map(|plan| &plan.crashes)
            .all(|crash| crash.harm == Harm::Kill(Victim::Lead))
    );
}

#[test]
fn seeds_that_failed_once_are_read() {
    for kept in [kept(), kept_ends()] {
        let mut single = kept.clone();
        single.sort_unstable();
        single.dedup();
        assert_eq!(single.len(), kept.len(), "a seed is named twice");
        assert!(!kept.is_empty());
    }
}

#[test]
fn two_hundred_runs_with_looked_at_ends_have_every_harm_in_all_places() {
    let plans: Vec<Plan> = (0..200).map(Plan::of_ends).collect();
    let harms: Vec<&Harm> =
        plans.iter().flat_map(|plan| &plan.crashes).map(|crash| &crash.harm).collect();
    for fault in ModelFault::ALL {
        assert!(
            harms
                .iter()
                .any(|harm| matches!(harm, Harm::Model { fault: met, .. } if *met == fault)),
            "{fault:?}"
        );
    }
    let has = |kind: &str| harms.iter().filter(|harm| harm.kind() == kind).count() >= 3;
    let kinds = [
        "Interrupt",
        "Interrupt twice",
        "Terminate",
        "HangUp",
        "kill Lead",
        "kill Member",
        "kill LeadAndMember",
        "kill Everyone",
        "full disk",
        "resize",
    ];
    assert!(kinds.iter().all(|kind| has(kind)), "{:?}", kinds.iter().find(|kind| !has(kind)));
    for place in Place::ALL {
        assert!(plans.iter().filter(|plan| plan.place == place).count() > 40, "{place:?}");
    }
}

#[test]
fn two_hundred_runs_with_faces_kill_hosts_below_every_kind_of_face() {
    let plans: Vec<Plan> = (0..200).map(Plan::of_faces).collect();
    let kinds = || plans.iter().flat_map(|plan| &plan.faces).flat_map(|faces| &faces.kinds);
    for kind in [FaceKind::Lines, FaceKind::Plain, FaceKind::Interface] {
        assert!(kinds().filter(|other| **other == kind).count() > 80, "{kind:?}");
    }
    let crashes = || plans.iter().flat_map(|plan| &plan.crashes);
    let hosts = crashes().filter(|crash| crash.harm != Harm::Kill(Victim::Member)).count();
    assert!(hosts > 400, "{hosts}");
    for plan in &plans {
        let faces = plan.faces.as_ref().unwrap();
        assert_eq!(faces.waits.len(), plan.crashes.len());
        assert_eq!(faces.kinds[0], FaceKind::Lines, "it learns the outcome");
        assert!(faces.kinds.contains(&FaceKind::Interface), "it answers");
    }
    for place in Place::ALL {
        assert!(plans.iter().filter(|plan| plan.place == place).count() > 40, "{place:?}");
    }
}
