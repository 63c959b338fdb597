// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.30;

/// A token that behaves like USDT where it matters for a payout: 6 decimals, no return value, a fee
/// on transfers that can be switched on, a pause, and a blacklist that holds for the sender only. As in
/// the real one an allowance is set from zero or to zero, the highest one never gets less, and anybody
/// may transfer nothing from anybody. Anybody may call its switches: it is for tests.
contract USDT {
    string public constant name = "Tether USD";
    string public constant symbol = "USDT";
    uint8 public constant decimals = 6;

    bool public paused;
    uint256 public basisPointsRate;
    uint256 public maximumFee;
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => bool) public isBlackListed;
    mapping(address => mapping(address => uint256)) public allowance;

    address private constant OWNER = address(0xfee);

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    function mint(address to, uint256 value) external {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function pause(bool on) external {
        paused = on;
    }

    function blacklist(address account, bool on) external {
        isBlackListed[account] = on;
    }

    function setParams(uint256 newBasisPoints, uint256 newMaxFee) external {
        basisPointsRate = newBasisPoints;
        maximumFee = newMaxFee;
    }

    function approve(address spender, uint256 value) external {
        require(value == 0 || allowance[msg.sender][spender] == 0);
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
    }

    function transfer(address to, uint256 value) external {
        move(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external {
        if (allowance[from][msg.sender] < type(uint256).max) {
            allowance[from][msg.sender] -= value;
        }
        move(from, to, value);
    }

    function move(address from, address to, uint256 value) private {
        require(!paused);
        require(!isBlackListed[from]);
        uint256 fee = value * basisPointsRate / 10000;
        if (fee > maximumFee) {
            fee = maximumFee;
        }
        balanceOf[from] -= value;
        balanceOf[to] += value - fee;
        emit Transfer(from, to, value - fee);
        if (fee > 0) {
            balanceOf[OWNER] += fee;
            emit Transfer(from, OWNER, fee);
        }
    }
}
