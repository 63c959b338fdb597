// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.30;

/// A token that returns false instead of reverting, and moves nothing; its decimals are wrong too.
contract Liar {
    uint8 public constant decimals = 18;
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;

    function mint(address to, uint256 value) external {
        totalSupply += value;
        balanceOf[to] += value;
    }

    function transfer(address, uint256) external pure returns (bool) {
        return false;
    }
}
