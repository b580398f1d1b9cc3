"""VeADK's evaluation page as a script: its evaluators, only the import changed."""

import asyncio

from deepeval.metrics import GEval, ToolCorrectnessMetric
from deepeval.test_case import SingleTurnParams
from ecommerce_agent.agent import root_agent

from agent_eval_workbench.veadk import ADKEvaluator, DeepevalEvaluator, MetricsFailed


async def main() -> None:
    [scored], _ = await ADKEvaluator(agent=root_agent).evaluate(
        eval_set_file_path="tests/simple.test.json",
        response_match_score_threshold=1,
        tool_score_threshold=0.5,
        num_runs=1,
        print_detailed_results=True,
    )
    print([(score.metric_name, score.overall_score) for score in scored])
    evaluator = DeepevalEvaluator(agent=root_agent)
    metrics = [
        GEval(
            threshold=0.8,
            name="Base Evaluation",
            criteria="Is it right?",
            evaluation_params=[
                SingleTurnParams.INPUT,
                SingleTurnParams.ACTUAL_OUTPUT,
                SingleTurnParams.EXPECTED_OUTPUT,
            ],
            model=evaluator.judge_model,
        ),
        ToolCorrectnessMetric(threshold=0.5, model=evaluator.judge_model),
    ]
    scores = await evaluator.evaluate(eval_set_file_path="tests/simple.test.json", metrics=metrics)
    print([(score.metric_name, score.overall_score, score.passed) for score in scores])
    try:
        await evaluator.evaluate(eval_set_file_path="tests/two.test.json", metrics=metrics)
    except MetricsFailed as failed:
        print(failed)


asyncio.run(main())
