// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.30;

/// A price feed with the interface of Chainlink's aggregators (AggregatorV3Interface). Its price is
/// what a test or the local stack sets.
contract Feed {
    uint8 public immutable decimals;
    string public description;

    uint80 private round;
    int256 private answer;
    uint256 private updatedAt;

    constructor(uint8 decimals_, string memory description_, int256 answer_) {
        decimals = decimals_;
        description = description_;
        set(answer_, block.timestamp);
    }

    /// Sets the price and the time in seconds since 1970 at which it was made.
    function set(int256 answer_, uint256 updatedAt_) public {
        round++;
        answer = answer_;
        updatedAt = updatedAt_;
    }

    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        return (round, answer, updatedAt, updatedAt, round);
    }
}
