// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.30;

/// A token that behaves like USDC where it matters for a payout: 6 decimals, a pause, a blacklist
/// that holds for both sides of a transfer and for its caller. As in the real one anybody may transfer
/// nothing from anybody: it needs no allowance. Anybody may call its switches: it is for tests.
contract USDC {
    string public constant name = "USD Coin";
    string public constant symbol = "USDC";
    uint8 public constant decimals = 6;

    bool public paused;
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => bool) public isBlacklisted;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    modifier open(address a, address b) {
        require(!paused, "Pausable: paused");
        require(
            !isBlacklisted[msg.sender] && !isBlacklisted[a] && !isBlacklisted[b],
            "Blacklistable: account is blacklisted"
        );
        _;
    }

    function mint(address to, uint256 value) external {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function pause(bool on) external {
        paused = on;
    }

    function blacklist(address account, bool on) external {
        isBlacklisted[account] = on;
    }

    function approve(address spender, uint256 value) external open(msg.sender, spender) returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external open(msg.sender, to) returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external open(from, to) returns (bool) {
        require(value <= allowance[from][msg.sender], "ERC20: transfer amount exceeds allowance");
        allowance[from][msg.sender] -= value;
        move(from, to, value);
        return true;
    }

    function move(address from, address to, uint256 value) private {
        require(to != address(0), "ERC20: transfer to the zero address");
        require(balanceOf[from] >= value, "ERC20: transfer amount exceeds balance");
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}
