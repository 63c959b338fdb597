# Downloads bitcoin-knots and the libraries that it needs, as if nothing was installed, and unpacks them into $1.
# apt works in a directory of its own, so it needs no root. The mirror may be a copy that is some weeks old; its
# signature is still checked.
new=$1
rm -rf "$new"
apt=$new/apt
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/none"
: >"$apt/status"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] http://deb.debian.org/debian sid main" >"$apt/sources"
cat >"$apt/conf" <<CONF
Dir::State "$apt"; Dir::State::status "$apt/status"; Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/sources"; Dir::Etc::sourceparts "$apt/none"; Dir::Etc::parts "$apt/none";
Dir::Etc::preferences "$apt/none/preferences"; Dir::Etc::preferencesparts "$apt/none";
Acquire::Languages "none"; Acquire::Check-Valid-Until "false"; Acquire::Retries "3"; APT::Sandbox::User "";
CONF
export APT_CONFIG="$apt/conf"
apt-get update -q
packages=$(apt-get install -q -s --no-install-recommends bitcoin-knots | awk '/^Inst (lib|bitcoin)/ {print $2}')
cd "$apt/archives"
apt-get download -q $packages
for package in *.deb; do dpkg -x "$package" "$new"; done
cd "$new"
rm -r "$apt"
loader=$(find usr -name 'ld-linux-*.so.*' | head -n 1)
ln -s "$loader" loader
ln -s "$(dirname "$(find usr -name 'libc.so.6' | head -n 1)")" libraries
