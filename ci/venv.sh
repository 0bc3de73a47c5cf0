# Sourced by scripts that need packages of PyPI or Maven. They are kept in the user's cache folder.
# shellcheck shell=bash
cache="${XDG_CACHE_HOME:-$HOME/.cache}/pagecast"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

# venv_of NAME PACKAGE...: $venv is a virtual environment that has these packages. Fails, and says
# what is skipped, where they cannot be had.
venv_of() {
    local wanted="${*:2}"
    venv="$cache/venv-$1"
    [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ] || return 0
    rm -rf "$venv"
    if "${PYTHON:-python3}" -m venv "$venv" && "$venv/bin/pip" install --quiet "${@:2}"; then
        echo "$wanted" > "$venv/wanted"
        return 0
    fi
    rm -rf "$venv"
    echo "skipped: no Python with venv, or PyPI has no $wanted for us" >&2
    return 1
}

# jar_of ARTIFACT: $jar is where Maven's file of that name lies. Fails likewise.
jar_of() {
    jar="$cache/tools/$(cut -d: -f2,3 <<< "$1" | tr : -).jar"
    if [ ! -e "$jar" ] && command -v mvn >/dev/null && command -v java >/dev/null; then
        mvn --batch-mode --quiet dependency:copy -Dartifact="$1" -DoutputDirectory="$cache/tools" >&2 || true
    fi
    [ -e "$jar" ] && command -v java >/dev/null && return 0
    echo "skipped: no Java, or Maven has no $1 for us" >&2
    return 1
}
