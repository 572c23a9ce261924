//! The table of protected files and folders.

use super::{Depth, Guard, ProtectedName};

/// The protected files and folders.
pub const PROTECTED: &[ProtectedName] = &[
    // Agents.
    protected(
        ".claude/",
        "Claude Code",
        "when a session starts",
        "https://code.claude.com/docs/en/settings",
    )
    .in_subfolders(),
    protected(
        ".mcp.json",
        "Claude Code and others",
        "when a session starts",
        "https://code.claude.com/docs/en/mcp",
    )
    .in_subfolders(),
    protected(
        ".cursor/mcp.json",
        "Cursor",
        "when the folder is opened",
        "https://cursor.com/docs/context/mcp",
    ),
    protected(
        ".cursor/hooks.json",
        "Cursor",
        "when its agent works",
        "https://cursor.com/docs/agent/hooks",
    ),
    protected(
        ".cursor/hooks/",
        "Cursor",
        "when its agent works",
        "https://cursor.com/docs/agent/hooks",
    ),
    protected(
        ".cursor/cli.json",
        "Cursor",
        "when its agent asks for permission",
        "https://cursor.com/docs/cli/reference/permissions",
    ),
    protected(
        ".gemini/",
        "Gemini CLI",
        "when a session starts",
        "https://geminicli.com/docs/reference/configuration/",
    ),
    protected(
        ".codex/",
        "Codex",
        "when a session starts",
        "https://developers.openai.com/codex/config-reference",
    ),
    protected(
        ".qwen/",
        "Qwen Code",
        "when a session starts",
        "https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings/",
    ),
    protected(
        ".windsurf/hooks.json",
        "Windsurf",
        "when its agent works",
        "https://docs.windsurf.com/windsurf/cascade/hooks",
    ),
    protected(
        ".windsurf/hooks/",
        "Windsurf",
        "when its agent works",
        "https://docs.windsurf.com/windsurf/cascade/hooks",
    ),
    protected(
        ".opencode/",
        "opencode",
        "when a session starts",
        "https://opencode.ai/docs/config/",
    ),
    protected(
        "opencode.json",
        "opencode",
        "when a session starts",
        "https://opencode.ai/docs/config/",
    ),
    protected(
        "opencode.jsonc",
        "opencode",
        "when a session starts",
        "https://opencode.ai/docs/config/",
    ),
    protected(
        ".roo/mcp.json",
        "Roo Code",
        "when the folder is opened",
        "https://docs.roocode.com/features/mcp/using-mcp-in-roo",
    ),
    protected(
        ".kiro/settings/",
        "Kiro",
        "when the folder is opened",
        "https://kiro.dev/docs/mcp/configuration/",
    ),
    protected(".kiro/hooks/", "Kiro", "when a file is saved", "https://kiro.dev/docs/hooks/"),
    protected(
        ".amazonq/mcp.json",
        "Amazon Q",
        "when a session starts",
        "https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/command-line-mcp.html",
    ),
    protected(
        ".amazonq/cli-agents/",
        "Amazon Q",
        "when a session starts",
        "https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/command-line-custom-agents.html",
    ),
    protected(
        ".continue/mcpServers/",
        "Continue",
        "when the folder is opened",
        "https://docs.continue.dev/customize/deep-dives/mcp",
    ),
    protected(
        ".aider.conf.yml",
        "Aider",
        "after each edit (`lint-cmd`)",
        "https://aider.chat/docs/config/aider_conf.html",
    ),
    protected(
        ".crush.json",
        "Crush",
        "when a session starts",
        "https://github.com/charmbracelet/crush",
    ),
    protected(
        "crush.json",
        "Crush",
        "when a session starts",
        "https://github.com/charmbracelet/crush",
    ),
    protected(
        ".github/hooks/",
        "Copilot",
        "when its agent works",
        "https://docs.github.com/en/copilot/concepts/agents/coding-agent/about-hooks",
    ),
    // Editors.
    protected(
        ".vscode/",
        "VS Code",
        "when the folder is opened",
        "https://code.visualstudio.com/docs/debugtest/tasks",
    ),
    protected(
        "*.code-workspace",
        "VS Code",
        "when the workspace is opened",
        "https://code.visualstudio.com/docs/editing/workspaces/multi-root-workspaces",
    ),
    protected(
        ".devcontainer/",
        "dev containers",
        "when the folder is opened",
        "https://containers.dev/implementors/json_reference/",
    ),
    protected(
        ".devcontainer.json",
        "dev containers",
        "when the folder is opened",
        "https://containers.dev/implementors/spec/",
    ),
    protected(
        ".idea/",
        "JetBrains",
        "when the project is opened",
        "https://www.jetbrains.com/help/idea/settings-tools-startup-tasks.html",
    ),
    protected(
        ".fleet/",
        "Fleet",
        "when a run configuration is started",
        "https://www.jetbrains.com/help/fleet/run-configurations.html",
    ),
    protected(".zed/", "Zed", "when the folder is opened", "https://zed.dev/docs/configuring-zed"),
    protected(
        ".helix/",
        "Helix",
        "when a file is opened",
        "https://docs.helix-editor.com/languages.html",
    ),
    asked(
        "*.sublime-project",
        "Sublime Text",
        "when the user builds",
        "https://www.sublimetext.com/docs/projects.html",
    ),
    protected(
        ".vimrc",
        "Vim with `exrc`",
        "when it starts in the folder",
        "https://vimhelp.org/starting.txt.html",
    ),
    protected(
        "_vimrc",
        "Vim with `exrc`",
        "when it starts in the folder",
        "https://vimhelp.org/starting.txt.html",
    ),
    protected(
        ".exrc",
        "Vim and Neovim with `exrc`",
        "when it starts in the folder",
        "https://vimhelp.org/starting.txt.html",
    ),
    protected(
        "_exrc",
        "Vim with `exrc`",
        "when it starts in the folder",
        "https://vimhelp.org/starting.txt.html",
    ),
    protected(
        ".nvimrc",
        "Neovim with `exrc`",
        "when it starts in the folder",
        "https://neovim.io/doc/user/options.html",
    ),
    protected(
        ".nvim.lua",
        "Neovim with `exrc`",
        "when it starts in the folder",
        "https://neovim.io/doc/user/options.html",
    ),
    protected(
        ".lazy.lua",
        "lazy.nvim",
        "when Neovim starts in the folder",
        "https://lazy.folke.io/configuration",
    ),
    protected(
        ".dir-locals.el",
        "Emacs",
        "when a file below the folder is visited",
        "https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html",
    )
    .in_subfolders(),
    protected(
        ".dir-locals-2.el",
        "Emacs",
        "when a file below the folder is visited",
        "https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html",
    )
    .in_subfolders(),
    // Folders that a shell enters.
    protected(
        ".envrc",
        "direnv",
        "when a shell enters the folder",
        "https://direnv.net/man/direnv.1.html",
    )
    .in_subfolders(),
    protected(
        ".direnv/",
        "direnv with nix-direnv",
        "when a shell enters the folder",
        "https://github.com/nix-community/nix-direnv",
    ),
    asked(
        ".tool-versions",
        "asdf and mise",
        "when a tool is started in the folder",
        "https://asdf-vm.com/manage/configuration.html",
    ),
    asked(
        "mise.toml",
        "mise",
        "when a shell enters the folder",
        "https://mise.jdx.dev/configuration.html",
    ),
    asked(
        "mise.*.toml",
        "mise",
        "when a shell enters the folder",
        "https://mise.jdx.dev/configuration.html",
    ),
    asked(
        ".mise.toml",
        "mise",
        "when a shell enters the folder",
        "https://mise.jdx.dev/configuration.html",
    ),
    asked(
        ".mise.*.toml",
        "mise",
        "when a shell enters the folder",
        "https://mise.jdx.dev/configuration.html",
    ),
    asked(
        "mise/config.toml",
        "mise",
        "when a shell enters the folder",
        "https://mise.jdx.dev/configuration.html",
    ),
    asked(
        ".mise/",
        "mise",
        "when a shell enters the folder",
        "https://mise.jdx.dev/configuration.html",
    ),
    asked(
        ".config/mise.toml",
        "mise",
        "when a shell enters the folder",
        "https://mise.jdx.dev/configuration.html",
    ),
    asked(
        ".config/mise/",
        "mise",
        "when a shell enters the folder",
        "https://mise.jdx.dev/configuration.html",
    ),
    // Git and its hooks.
    protected(
        ".gitmodules",
        "git",
        "when submodules are updated",
        "https://git-scm.com/docs/gitmodules",
    ),
    protected(
        ".githooks/",
        "git with `core.hooksPath`",
        "when the user commits",
        "https://git-scm.com/docs/githooks",
    ),
    protected(".husky/", "husky", "when the user commits", "https://typicode.github.io/husky/"),
    asked(
        ".pre-commit-config.yaml",
        "pre-commit",
        "when the user commits",
        "https://pre-commit.com/",
    ),
    asked("lefthook.*", "lefthook", "when the user commits", "https://lefthook.dev/configuration/"),
    asked(
        "lefthook-local.*",
        "lefthook",
        "when the user commits",
        "https://lefthook.dev/configuration/",
    ),
    asked(
        ".lefthook.*",
        "lefthook",
        "when the user commits",
        "https://lefthook.dev/configuration/",
    ),
    asked(
        ".lefthook-local.*",
        "lefthook",
        "when the user commits",
        "https://lefthook.dev/configuration/",
    ),
    asked(".lefthook/", "lefthook", "when the user commits", "https://lefthook.dev/configuration/"),
    asked(
        ".lefthook-local/",
        "lefthook",
        "when the user commits",
        "https://lefthook.dev/configuration/",
    ),
    asked(
        ".config/lefthook.*",
        "lefthook",
        "when the user commits",
        "https://lefthook.dev/configuration/",
    ),
    asked(
        ".config/lefthook-local.*",
        "lefthook",
        "when the user commits",
        "https://lefthook.dev/configuration/",
    ),
    protected(".gitconfig", "git", "when the user runs it", "https://git-scm.com/docs/git-config"),
    protected(
        ".config/git/",
        "git",
        "when the user runs it",
        "https://git-scm.com/docs/git-config",
    ),
    // Shells, and programs that the user starts.
    protected(
        ".bashrc",
        "bash",
        "when it starts",
        "https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html",
    ),
    protected(
        ".bash_profile",
        "bash",
        "when it starts",
        "https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html",
    ),
    protected(
        ".bash_login",
        "bash",
        "when it starts",
        "https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html",
    ),
    protected(
        ".bash_logout",
        "bash",
        "when it ends",
        "https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html",
    ),
    protected(
        ".bash_aliases",
        "bash",
        "when it starts",
        "https://www.debian.org/doc/manuals/debian-reference/ch01.en.html",
    ),
    protected(
        ".profile",
        "sh and bash",
        "when the user logs in",
        "https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html",
    ),
    protected(
        ".zshrc",
        "zsh",
        "when it starts",
        "https://zsh.sourceforge.io/Doc/Release/Files.html",
    ),
    protected(
        ".zshenv",
        "zsh",
        "when it starts",
        "https://zsh.sourceforge.io/Doc/Release/Files.html",
    ),
    protected(
        ".zprofile",
        "zsh",
        "when it starts",
        "https://zsh.sourceforge.io/Doc/Release/Files.html",
    ),
    protected(
        ".zlogin",
        "zsh",
        "when it starts",
        "https://zsh.sourceforge.io/Doc/Release/Files.html",
    ),
    protected(
        ".zlogout",
        "zsh",
        "when it ends",
        "https://zsh.sourceforge.io/Doc/Release/Files.html",
    ),
    protected(
        "config.fish",
        "fish",
        "when it starts",
        "https://fishshell.com/docs/current/language.html",
    ),
    protected(
        ".config/fish/",
        "fish",
        "when it starts",
        "https://fishshell.com/docs/current/language.html",
    ),
    protected(
        ".inputrc",
        "programs with readline",
        "when they start",
        "https://www.gnu.org/software/bash/manual/html_node/Readline-Init-File.html",
    ),
    protected(".ssh/config", "ssh", "when it starts", "https://man.openbsd.org/ssh_config"),
    protected(".ssh/rc", "sshd", "when the user logs in", "https://man.openbsd.org/sshd"),
    protected(".ssh/environment", "sshd", "when the user logs in", "https://man.openbsd.org/sshd"),
    protected(
        ".ssh/authorized_keys",
        "sshd",
        "when somebody logs in",
        "https://man.openbsd.org/sshd",
    ),
    protected(".tmux.conf", "tmux", "when it starts", "https://man.openbsd.org/tmux"),
    protected(
        ".screenrc",
        "screen",
        "when it starts",
        "https://www.gnu.org/software/screen/manual/screen.html",
    ),
    protected(
        ".gdbinit",
        "gdb",
        "when it starts in the folder",
        "https://sourceware.org/gdb/current/onlinedocs/gdb.html/Init-File-in-the-Current-Directory.html",
    ),
    protected(
        ".lldbinit",
        "lldb",
        "when it starts in the folder",
        "https://lldb.llvm.org/man/lldb.html",
    ),
    protected(
        ".pythonrc",
        "Python with `PYTHONSTARTUP`",
        "when it starts",
        "https://docs.python.org/3/using/cmdline.html",
    ),
    protected(
        ".pythonrc.py",
        "Python with `PYTHONSTARTUP`",
        "when it starts",
        "https://docs.python.org/3/using/cmdline.html",
    ),
    protected(
        ".pythonstartup",
        "Python with `PYTHONSTARTUP`",
        "when it starts",
        "https://docs.python.org/3/using/cmdline.html",
    ),
    protected(
        ".irbrc",
        "irb",
        "when it starts in the folder",
        "https://ruby.github.io/irb/Configurations_md.html",
    ),
    protected(
        ".pryrc",
        "pry",
        "when it starts in the folder",
        "https://github.com/pry/pry/wiki/Pry-rc",
    ),
    protected(
        ".psqlrc",
        "psql",
        "when it starts",
        "https://www.postgresql.org/docs/current/app-psql.html",
    ),
    protected(".sqliterc", "sqlite3", "when it starts", "https://sqlite.org/cli.html"),
    // Package managers.
    asked(
        ".npmrc",
        "npm and pnpm",
        "when a package is installed or a script is run",
        "https://docs.npmjs.com/cli/configuring-npm/npmrc",
    ),
    asked(
        ".yarnrc",
        "Yarn",
        "when it starts (`yarn-path`)",
        "https://classic.yarnpkg.com/lang/en/docs/yarnrc/",
    ),
    asked(
        ".yarnrc.*",
        "Yarn",
        "when it starts (`yarnPath`)",
        "https://yarnpkg.com/configuration/yarnrc",
    ),
    asked(".pnpmfile.*", "pnpm", "when packages are installed", "https://pnpm.io/pnpmfile"),
    asked("bunfig.toml", "Bun", "when it starts (`preload`)", "https://bun.sh/docs/runtime/bunfig"),
    asked(
        ".cargo/config",
        "Cargo",
        "when it builds (`rustc-wrapper`)",
        "https://doc.rust-lang.org/cargo/reference/config.html",
    ),
    asked(
        ".cargo/config.toml",
        "Cargo",
        "when it builds (`rustc-wrapper`)",
        "https://doc.rust-lang.org/cargo/reference/config.html",
    ),
    asked(
        ".bundle/config",
        "Bundler",
        "when gems are installed",
        "https://bundler.io/man/bundle-config.1.html",
    ),
    asked(
        ".Rprofile",
        "R",
        "when it starts in the folder",
        "https://stat.ethz.ch/R-manual/R-devel/library/base/html/Startup.html",
    ),
    asked(
        ".Renviron",
        "R",
        "when it starts in the folder",
        "https://stat.ethz.ch/R-manual/R-devel/library/base/html/Startup.html",
    ),
];

/// Creates a row for a file that controls permissions or contains programs.
const fn protected(
    name: &'static str,
    program: &'static str,
    when: &'static str,
    source: &'static str,
) -> ProtectedName {
    ProtectedName { name, depth: Depth::Top, guard: Guard::Protected, program, when, source }
}

/// Creates a row for a file that is a part of ordinary work.
const fn asked(
    name: &'static str,
    program: &'static str,
    when: &'static str,
    source: &'static str,
) -> ProtectedName {
    ProtectedName { name, depth: Depth::Top, guard: Guard::Asked, program, when, source }
}

impl ProtectedName {
    const fn in_subfolders(self) -> Self {
        Self { depth: Depth::Subfolders, ..self }
    }
}
