//! Programs that a repository names.

use std::fs;
use std::path::Path;

use super::{Guard, Layer, Scene, commit, git, git_of_tests};
use crate::worktree::Worktree;

/// Names a program in a configuration of the repository.
type Plant = fn(&Scene, &str);

/// Names a program in a worktree that was made meanwhile.
type PlantLater = fn(&Scene, &Worktree, &str);

const NOT_LATER: PlantLater = |_, _, _| ();
const NOT_BEFORE: Plant = |_, _| ();

/// Each place in which a repository can name a program that git would run.
const PLACES: &[(&str, Plant, PlantLater)] = &[
    (
        "a filter that cleans",
        |scene, it| set(&scene.repository, "filter.evil.clean", it),
        NOT_LATER,
    ),
    (
        "a filter that smudges",
        |scene, it| set(&scene.repository, "filter.evil.smudge", it),
        NOT_LATER,
    ),
    (
        "a process that filters",
        |scene, it| set(&scene.repository, "filter.evil.process", it),
        NOT_LATER,
    ),
    ("a monitor", |scene, it| set(&scene.repository, "core.fsmonitor", it), NOT_LATER),
    (
        "a hook",
        |scene, it| {
            let hooks = scene.repository.join(".git/hooks");
            fs::create_dir_all(&hooks).unwrap();
            fs::copy(it, hooks.join("reference-transaction")).unwrap();
        },
        NOT_LATER,
    ),
    (
        "a filter with the sign that ends a key on a command line",
        |scene, it| {
            attributes(&scene.repository, "*.dat filter=a=b");
            set(&scene.repository, "filter.a=b.clean", it);
        },
        NOT_LATER,
    ),
    (
        "a file that counts only for the new branch",
        |scene, it| {
            let file = scene.base.join("included");
            set_in(&file, "filter.evil.smudge", it);
            let key = "includeIf.onbranch:pitcrew/**.path";
            set(&scene.repository, key, &file.display().to_string());
        },
        NOT_LATER,
    ),
    (
        "a file that counts only in worktrees",
        |scene, it| {
            let file = scene.base.join("included");
            set_in(&file, "filter.evil.clean", it);
            let key = "includeIf.gitdir:**/worktrees/**.path";
            set(&scene.repository, key, &file.display().to_string());
        },
        NOT_LATER,
    ),
    (
        "the configuration of a worktree",
        |scene, _| set(&scene.repository, "extensions.worktreeConfig", "true"),
        |_, worktree, it| {
            git(&worktree.path, "config --worktree filter.evil.required true");
            set_in(&admin(worktree).join("config.worktree"), "filter.evil.clean", it);
        },
    ),
    ("a repository inside, without .gitmodules", NOT_BEFORE, |_, worktree, it| {
        let inner = nested(&worktree.path);
        set(&inner, "filter.evil.clean", it);
        commit(&worktree.path, "outer");
        fs::write(inner.join("y.dat"), "other").unwrap();
    }),
    ("the monitor of a repository inside", NOT_BEFORE, |_, worktree, it| {
        let inner = nested(&worktree.path);
        commit(&worktree.path, "outer");
        set(&inner, "core.fsmonitor", it);
    }),
    ("a repository in a repository inside", NOT_BEFORE, |_, worktree, it| {
        let inner = nested(&worktree.path);
        let deeper = nested(&inner);
        set(&deeper, "filter.evil.clean", it);
        commit(&inner, "middle");
        commit(&worktree.path, "outer");
        fs::write(deeper.join("y.dat"), "other").unwrap();
    }),
];

fn set(folder: &Path, key: &str, value: &str) {
    let said = git_of_tests(folder).args(["config", key, value]).output().unwrap();
    assert!(said.status.success(), "{said:?}");
}

fn set_in(file: &Path, key: &str, value: &str) {
    let folder = file.parent().unwrap();
    let said = git_of_tests(folder).args(["config", "-f"]).arg(file).args([key, value]).output();
    assert!(said.unwrap().status.success());
}

fn attributes(repository: &Path, line: &str) {
    fs::write(repository.join(".gitattributes"), format!("{line}\n")).unwrap();
    commit(repository, "attributes");
}

fn admin(worktree: &Worktree) -> std::path::PathBuf {
    git(&worktree.path, "rev-parse --absolute-git-dir").into()
}

/// Makes a repository inside another, whose index names it.
fn nested(outer: &Path) -> std::path::PathBuf {
    let inner = outer.join("inner");
    fs::create_dir(&inner).unwrap();
    git(&inner, "init --quiet --initial-branch=main");
    fs::write(inner.join(".gitattributes"), "*.dat filter=evil\n").unwrap();
    commit(&inner, "y.dat");
    inner
}

#[tokio::test]
async fn no_program_of_a_repository_reaches_the_home_with_either_layer() {
    for (place, before, later) in PLACES {
        for guard in Guard::ALL {
            let scene = Scene::new();
            if !guard.can_be_tried(&scene) {
                continue;
            }
            let program = scene.program();
            before(&scene, &program);
            let our_git = guard.git(&scene, Layer::Settings);
            let lived = scene.live(our_git, |worktree| later(&scene, worktree, &program)).await;
            // Without any layer, the attack must work. Otherwise the other rows prove nothing.
            let expected = guard != Guard::None;
            assert_eq!(scene.is_home_untouched(), expected, "{place}, {guard:?}: {lived:?}");
            if matches!(guard, Guard::Both | Guard::FirstAlone) {
                assert!(lived.is_ok(), "{place}, {guard:?}: {lived:?}");
            }
        }
    }
}

#[tokio::test]
async fn without_confinement_a_setting_that_nobody_knows_is_refused_and_named() {
    let scene = Scene::new();
    let lived = async |guard: Guard| {
        scene.live(guard.git(&scene, Layer::Settings), |_| ()).await.map_err(|it| it.to_string())
    };
    assert_eq!(lived(Guard::FirstAlone).await, Ok(()), "a plain repository");
    set(&scene.repository, "sometool.new.command", "evil");
    let said = lived(Guard::FirstAlone).await.unwrap_err();
    for part in ["sometool.new.command", "Landlock", "Remove the setting"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!scene.base.join("root/pitcrew/worktrees/probe/worker").exists());
    if Guard::Both.can_be_tried(&scene) {
        assert_eq!(lived(Guard::Both).await, Ok(()), "confined, git may run");
    }
}
