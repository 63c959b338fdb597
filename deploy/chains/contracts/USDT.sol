// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.30;

/// A token that behaves like USDT where it matters for a payout: 6 decimals, no return value, a fee
/// on transfers that can be switched on, a pause, and a blacklist that holds for the sender only.
/// Anybody may call its switches: it is for tests.
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

    address private constant OWNER = address(0xfee);

    event Transfer(address indexed from, address indexed to, uint256 value);

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

    function transfer(address to, uint256 value) external {
        require(!paused);
        require(!isBlackListed[msg.sender]);
        uint256 fee = value * basisPointsRate / 10000;
        if (fee > maximumFee) {
            fee = maximumFee;
        }
        balanceOf[msg.sender] -= value;
        balanceOf[to] += value - fee;
        emit Transfer(msg.sender, to, value - fee);
        if (fee > 0) {
            balanceOf[OWNER] += fee;
            emit Transfer(msg.sender, OWNER, fee);
        }
    }
}
