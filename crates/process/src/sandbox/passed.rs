//! The environment variables that commands inherit although nobody was asked about them.
//!
//! A command in the sandbox profiles *read* and *work* inherits a variable only if this table or the
//! user's setting `sandbox.passedVariables` names it. The rules of the module `environment` hold on
//! top: a variable of the table whose name or value looks secret is not inherited.
//!
//! A family belongs in the table if tools need it to find or to build something, and if it does not
//! usually hold a secret. Families such as `BUNDLE_*` and `GIT_CONFIG_*` hold secrets under any name
//! (`BUNDLE_GITHUB__COM`), so the table names their harmless members alone.

/// Variables that commands inherit, and the reason.
#[derive(Debug)]
struct Family {
    /// The names, separated by blanks. A name that ends with `*` stands for all that begin with it.
    /// Upper and lower case are not distinguished.
    names: &'static str,
    /// What needs them.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader; a test demands it"))]
    why: &'static str,
}

const FAMILIES: &[Family] = &[
    Family {
        names: "PATH HOME USER LOGNAME USERNAME SHELL PWD OLDPWD SHLVL HOSTNAME HOST HOSTTYPE OSTYPE \
                MACHTYPE TMPDIR TMP TEMP MANPATH INFOPATH EMAIL EDITOR VISUAL PAGER LESS LESSOPEN \
                LESSCLOSE LESSCHARSET MORE COLUMNS LINES",
        why: "every program finds its user, its folders and its helpers by them",
    },
    Family {
        names: "BASH BASH_* BASHOPTS SHELLOPTS ENV ZDOTDIR FPATH FISH_* ZSH ZSH_* IFS PS1 PS2 PS4 \
                PROMPT_COMMAND TMOUT INIT_CWD HISTFILE HISTSIZE INPUTRC",
        why: "shells",
    },
    Family {
        names: "LANG LANGUAGE LC_* TZ TZDIR LOCPATH NLSPATH CHARSET SOURCE_DATE_EPOCH",
        why: "languages, time zones and times of builds",
    },
    Family {
        names: "TERM TERM_PROGRAM TERM_PROGRAM_VERSION TERMINFO* COLORTERM COLORFGBG NO_COLOR \
                CLICOLOR* FORCE_COLOR LS_COLORS LSCOLORS GREP_COLOR* GCC_COLORS SSH_CONNECTION \
                SSH_CLIENT SSH_TTY WSL_DISTRO_NAME WSLENV XDG_*",
        why: "what a terminal can show, and the folders of the desktop",
    },
    Family {
        names: "HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR \
                CURL_CA_BUNDLE REQUESTS_CA_BUNDLE",
        why: "the way into the network, where a command has one; one with a password is secret",
    },
    Family {
        names: "CI CONTINUOUS_INTEGRATION BUILD_NUMBER GITHUB_ACTIONS GITHUB_WORKSPACE GITHUB_SHA \
                GITHUB_REF GITHUB_REPOSITORY GITLAB_CI RUNNER_OS RUNNER_TEMP DEBUG VERBOSE V \
                DEBIAN_FRONTEND DEBCONF_* TEST_TMPDIR NO_UPDATE_NOTIFIER INSTA_* PROPTEST_* \
                NEXTEST_* LOG_LEVEL",
        why: "tools behave differently in tests and on build machines",
    },
    Family {
        names: "GIT_AUTHOR_* GIT_COMMITTER_* GIT_EDITOR GIT_PAGER GIT_SEQUENCE_EDITOR GIT_CONFIG_GLOBAL \
                GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM GIT_CEILING_DIRECTORIES \
                GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_TERMINAL_PROMPT GIT_SSL_CAINFO GIT_SSL_NO_VERIFY \
                GIT_TRACE* GIT_OPTIONAL_LOCKS GIT_DEFAULT_HASH GIT_EXEC_PATH GIT_TEMPLATE_DIR \
                GIT_ATTR_NOSYSTEM GIT_LFS_SKIP_SMUDGE",
        why: "git's identity and configuration files; `GIT_CONFIG_VALUE_*` can be a header with a key",
    },
    Family {
        names: "LD LD_* DYLD_* LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH \
                INCLUDE LIB LIBS LDLIBS PKG_CONFIG* CC CC_* CXX CXX_* CPP AR AR_* AS NM RANLIB STRIP \
                OBJCOPY OBJDUMP CFLAGS CFLAGS_* CXXFLAGS CXXFLAGS_* CPPFLAGS LDFLAGS ARFLAGS FC FFLAGS \
                TARGET_CC TARGET_CXX TARGET_AR HOST_CC HOST_CXX ARCH SDKROOT DEVELOPER_DIR \
                MACOSX_DEPLOYMENT_TARGET CCACHE_* SCCACHE_* MAKE* MFLAGS CMAKE_* CTEST_* NINJA_STATUS \
                MESON_* ACLOCAL_PATH CONFIG_SITE CONAN_HOME VCPKG_ROOT LLVM_* LIBCLANG_PATH \
                BINDGEN_EXTRA_CLANG_ARGS OPENSSL_* QT_* ZIG_*",
        why: "compilers, linkers and build tools of C and its relatives",
    },
    Family { names: "CARGO CARGO_* RUST* CLIPPY_*", why: "Rust" },
    Family {
        names: "GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOENV GOOS GOARCH GOARM GOAMD64 \
                GO111MODULE GOPROXY GONOPROXY GOPRIVATE GOSUMDB GONOSUMDB GOTOOLCHAIN GOWORK \
                GOEXPERIMENT GOMAXPROCS GOGC GOMEMLIMIT GODEBUG GOTMPDIR GOINSECURE GOVCS CGO_*",
        why: "Go; each by its name, because `GO*` is `GOOGLE_*` too",
    },
    Family {
        names: "JAVA_* JDK_* JRE_HOME _JAVA_OPTIONS CLASSPATH MAVEN_HOME MAVEN_OPTS MAVEN_ARGS M2_HOME \
                GRADLE_HOME GRADLE_OPTS GRADLE_USER_HOME ANT_HOME ANT_OPTS KOTLIN_HOME SBT_OPTS \
                SCALA_HOME ANDROID_HOME ANDROID_SDK_ROOT ANDROID_NDK_* SDKMAN_*",
        why: "Java and its relatives",
    },
    Family {
        names: "NODE_* NPM_CONFIG_* NPM_LIFECYCLE_* NPM_PACKAGE_* NPM_NODE_EXECPATH NPM_EXECPATH YARN_* \
                PNPM_HOME COREPACK_* NVM_* FNM_* VOLTA_* BUN_INSTALL BUN_RUNTIME_* DENO_DIR \
                DENO_INSTALL* ELECTRON_* PLAYWRIGHT_* PUPPETEER_* TS_NODE_* JEST_*",
        why: "JavaScript",
    },
    Family {
        names: "PYTHON* PIP_* PIPENV_* PIPX_* POETRY_HOME POETRY_CACHE_DIR POETRY_VIRTUALENVS_* UV_* \
                PDM_* VIRTUAL_ENV VIRTUAL_ENV_* CONDA_* MAMBA_* PYENV_* PYTEST_* TOX_* NOX_* MYPY* \
                RUFF_* COVERAGE_* DJANGO_SETTINGS_MODULE FLASK_APP FLASK_ENV",
        why: "Python",
    },
    Family {
        names: "RUBY* GEM_HOME GEM_PATH BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_WITHOUT BUNDLE_WITH BUNDLE_JOBS \
                BUNDLE_BIN BUNDLE_APP_CONFIG BUNDLE_FROZEN BUNDLE_DEPLOYMENT RBENV_* RAILS_ENV RACK_ENV \
                PHP_* PHPRC COMPOSER_HOME COMPOSER_CACHE_DIR COMPOSER_NO_INTERACTION PERL* LUA_* R_HOME \
                R_LIBS* R_PROFILE R_ENVIRON JULIA_* OCAML* OPAM* CAML_LD_LIBRARY_PATH GHC* STACK_ROOT \
                CABAL_* ERL_* MIX_ENV MIX_HOME HEX_HOME ELIXIR_* DOTNET_* NUGET_PACKAGES MSBUILD* \
                SWIFT_*",
        why: "other languages",
    },
    Family {
        names: "NIX_PATH NIX_PROFILES NIX_SSL_CERT_FILE NIX_STORE NIX_CC* NIX_CFLAGS_* NIX_LDFLAGS* \
                IN_NIX_SHELL GUIX_* ASDF_* MISE_* HOMEBREW_* DIRENV_DIR DIRENV_FILE",
        why: "managers of toolchains",
    },
    Family {
        names: "CUDA_* ROCM_* HIP_* NVIDIA_VISIBLE_DEVICES OMP_* MKL_* OPENBLAS_* NUMEXPR_* TORCH_* \
                PYTORCH_* TF_* XLA_* JAX_* HF_HOME TOKENIZERS_PARALLELISM TRANSFORMERS_CACHE",
        why: "computing with graphics cards and many threads",
    },
    Family {
        names: "PITCREW_* CLAUDECODE CLAUDE_CODE_* CLAUDE_CONFIG_DIR CLAUDE_PROJECT_DIR",
        why: "the marks of our own processes, and the root",
    },
];

/// Returns true if commands inherit a variable of this name although nobody was asked about them.
pub(super) fn is_passed(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let names = FAMILIES.iter().flat_map(|family| family.names.split_whitespace());
    let mut names = names.filter(|it| !it.is_empty());
    names.any(|it| match it.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == it,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_its_reason_and_no_name_is_for_all() {
        for family in FAMILIES {
            assert!(!family.why.is_empty() && !family.names.is_empty(), "{family:?}");
            for name in family.names.split_whitespace() {
                assert!(name.trim_end_matches('*').len() > 1 || name == "V", "{name}");
                assert_eq!(name, name.to_ascii_uppercase());
            }
        }
    }

    #[test]
    fn what_tools_need_is_passed() {
        for name in [
            "PATH",
            "HOME",
            "LANG",
            "LC_ALL",
            "TERM",
            "COLORTERM",
            "TZ",
            "USER",
            "SHELL",
            "TMPDIR",
            "CARGO_HOME",
            "RUSTUP_HOME",
            "RUSTFLAGS",
            "GOPATH",
            "JAVA_HOME",
            "NODE_ENV",
            "CI",
            "VIRTUAL_ENV",
            "npm_config_cache",
            "http_proxy",
            "CC",
            "CFLAGS",
            "PKG_CONFIG_PATH",
            "LD_LIBRARY_PATH",
            "PYTHONPATH",
            "GIT_AUTHOR_NAME",
            "PITCREW_JOB",
            "XDG_CACHE_HOME",
        ] {
            assert!(is_passed(name), "{name}");
        }
    }

    #[test]
    fn what_may_be_a_secret_under_any_name_is_not() {
        for name in [
            "BW_SESSION",
            "OP_SESSION_my",
            "OP_SERVICE_ACCOUNT",
            "SENDGRID_ID",
            "TWILIO_ACCOUNT",
            "TWILIO_SID",
            "SOPS_AGE_RECIPIENTS",
            "SOPS_AGE",
            "AGE_IDENTITY",
            "RAGE_FILE",
            "GOOGLE_OAUTH",
            "GIT_CONFIG_VALUE_0",
            "GIT_CONFIG_COUNT",
            "BUNDLE_GITHUB__COM",
            "BUNDLE_RUBYGEMS__PKG__GITHUB__COM",
            "MY_APP_LICENSE",
            "VAULT_ADDR",
            "STRIPE_ID",
            "PGUSER",
            "AWS_PROFILE",
            "KUBECONFIG",
            "DATABASE_HOST",
            "FOO",
            "",
        ] {
            assert!(!is_passed(name), "{name}");
        }
    }
}
